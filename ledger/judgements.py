"""Tell in words how a log entry was decided: every rule in order, with the figures that the entry has recorded.

An entry records what it was decided by, not all that was known then: an approval has the agent's amounts after it, a
refusal the amounts that its rule compared, and what holds a payment for a person's approval has both. Where nothing is
recorded, a rule is only said to have passed.
"""

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

from ledger.models import LogEntry, Result
from ledger.recorded import read_figure, read_moment, read_number, read_text
from ledger.told import Judgement, Outcome, Told, ToldLevel
from policy.holding_rules import PERSON_RULE
from policy.rule import Figure, Rule, Said
from policy.rules import RULES, SIGNER_RULE, words_of_refusal

APPROVAL = "Every rule passed"
_SPENT, _MADE = "Spent before", "Made before"
_COMPARED = {"limit": "Limit", "spent": _SPENT, "requested": "Asked for", "remaining": "Would have fitted"}
_COMPARED_TO_HOLD = _COMPARED | {"remaining": "Without approval"}


def words_of(entry: LogEntry) -> str:
    """Say in a few words how an entry was decided; by whose rule, if it was one of an agent above the payer."""
    if entry.result == Result.APPROVED:
        return APPROVAL
    words, level = words_of_refusal(entry.rule).refused, _read_level(read_explanation(entry))
    return words if level is None else f"{words} (budget of {level})"


def tell(entry: LogEntry) -> Told:
    """Tell how an entry was decided, by what it has recorded; what somebody made unreadable is left out."""
    explanation = read_explanation(entry)
    is_approved = entry.result == Result.APPROVED
    if entry.result == Result.HELD:
        judgements = _held(entry, explanation)
    else:
        judgements = _approved(entry, explanation) if is_approved else _refused(entry, explanation)
    return Told(
        judgements=tuple(judgements),
        words=str(explanation.get("message") or words_of(entry)),
        recipient=read_text(explanation.get("recipient")),
        escrow_id=read_text(explanation.get("escrowId")),
        fits_at=read_moment(explanation.get("allowedAt")),
        can_wait="allowedAt" in explanation,
        level=_read_level(explanation),
        levels=tuple(_tell_levels(entry, explanation)),
    )


def read_explanation(entry: LogEntry) -> dict[str, Any]:
    """Read an explanation; {} if somebody made it unreadable, which the hash reveals as well."""
    try:
        explanation: Any = entry.explanation
    except ValueError:
        return {}
    return explanation if isinstance(explanation, dict) else {}


def _read_level(explanation: Mapping[str, Any]) -> str | None:
    """Read which agent above the payer had the rule that decided; None: it was the payer's own."""
    level = explanation.get("level")
    return read_text(level.get("agentId")) if isinstance(level, dict) else None


def _message_of_rule(explanation: Mapping[str, Any]) -> str:
    """Read what the rule said that decided, without whose rule it was."""
    message = str(explanation.get("message", ""))
    return message.removeprefix(f"Budget of {_read_level(explanation)}, above this one: ")


def _tell_levels(entry: LogEntry, explanation: Mapping[str, Any]) -> Iterator[ToldLevel]:
    """Tell what those above the payer said of what was approved or is held; not what asks for a person, if one was."""
    levels, asks_person = explanation.get("levels"), entry.result == Result.HELD or "heldBy" in explanation
    for level in levels if isinstance(levels, list) else ():
        if isinstance(level, dict) and (agent := read_text(level.get("agentId"))) is not None:
            rules = _rules_shown(partial(_is_recorded, level), is_answered=asks_person)
            judgements = tuple(_passed(rule, entry, level) for rule in rules if rule.judges_levels)
            yield ToldLevel(agent, read_text(level.get("policyRevision")) or "", judgements)


def _approved(entry: LogEntry, explanation: Mapping[str, Any]) -> list[Judgement]:
    answer = list(_by_person(entry, explanation))
    rules = _rules_shown(partial(_is_recorded, explanation), is_answered=bool(answer))
    return [*answer, *(_passed(rule, entry, explanation) for rule in rules)]


def _held(entry: LogEntry, explanation: Mapping[str, Any]) -> list[Judgement]:
    """Give all rules: what is held has passed those that refuse. One that holds it is enough, and it is not signed."""
    judgements, is_held = [], False
    for rule in _rules_shown(lambda rule: rule.name == entry.rule or _is_recorded(explanation, rule)):
        if rule.name == entry.rule:
            words, figures = _message_of_rule(explanation), _compared(explanation, _COMPARED_TO_HOLD)
            judgements.append(Judgement(rule.words.refused, Outcome.NEEDS_APPROVAL, words, figures))
            is_held = True
        elif rule is SIGNER_RULE or (rule.holds and is_held):
            figures = _read_record(rule, read_number(entry.amount), explanation).figures
            judgements.append(Judgement(rule.words.passed, Outcome.NOT_NEEDED, figures=figures))
        else:
            judgements.append(_passed(rule, entry, explanation))
    return judgements


def _passed(rule: Rule, entry: LogEntry, explanation: Mapping[str, Any]) -> Judgement:
    said = _read_record(rule, read_number(entry.amount), explanation)
    words = "; ".join(f"{label}: {text}" for label, text in said.texts)
    return Judgement(rule.words.passed, Outcome.PASSED, words, said.figures, said.share)


def _by_person(entry: LogEntry, explanation: Mapping[str, Any]) -> Iterator[Judgement]:
    """Tell what came of it that a person was asked, if one was: that is known before any rule is asked again."""
    if entry.rule == PERSON_RULE.name:
        yield Judgement(PERSON_RULE.words.refused, Outcome.REFUSED, str(explanation.get("message", "")))
    elif "heldBy" in explanation:
        who, why = explanation.get("answeredBy", ""), explanation.get("answerReason", "")
        yield Judgement(PERSON_RULE.words.passed, Outcome.PASSED, f"{who}: {why}")


def _is_recorded(explanation: Mapping[str, Any], rule: Rule) -> bool:
    return rule.record is not None and any(one in explanation for one in rule.record.names)


def _rules_shown(is_recorded: Callable[[Rule], bool], *, is_answered: bool = False) -> list[Rule]:
    """Give the rules of every policy, and those optional ones of which the entry has something.

    `is_answered`: a person has answered, so those that ask for one are not asked again.
    """
    rules = [rule for rule in (*RULES, SIGNER_RULE) if not (is_answered and rule.holds)]
    return [rule for rule in rules if not rule.parts or is_recorded(rule)]


def _read_record(rule: Rule, paid: Decimal | None, explanation: Mapping[str, Any]) -> Said:
    """Read what an approval has recorded of a rule; nothing, if it does not fit or is unreadable."""
    if rule.record is None or paid is None:
        return Said()
    values = [read_figure(explanation.get(name)) for name in rule.record.names]
    try:
        return rule.record.say(paid, *values)
    except (TypeError, ArithmeticError):
        return Said()


def _refused(entry: LogEntry, explanation: Mapping[str, Any]) -> list[Judgement]:
    """Give the rules before the one that refused, and that one. Those behind it are not needed any more."""
    judgements = list(_by_person(entry, explanation))
    outcome = Outcome.NOT_NEEDED if entry.rule == PERSON_RULE.name else Outcome.PASSED
    for rule in _rules_shown(lambda rule: rule.name == entry.rule, is_answered=bool(judgements)):
        if rule.name == entry.rule:
            words, figures = _message_of_rule(explanation), _compared(explanation)
            judgements.append(Judgement(rule.words.refused, Outcome.REFUSED, words, figures))
            outcome = Outcome.NOT_NEEDED
        else:
            judgements.append(Judgement(rule.words.passed, outcome))
    return judgements


def _compared(explanation: Mapping[str, Any], labels: Mapping[str, str] = _COMPARED) -> tuple[tuple[str, Figure], ...]:
    """Read what the rule compared that an entry names."""
    compared = [(label, read_figure(explanation.get(name))) for name, label in labels.items()]
    return tuple(
        (_MADE if isinstance(figure, int) and label == _SPENT else label, figure)
        for label, figure in compared
        if isinstance(figure, Decimal | int)
    )
