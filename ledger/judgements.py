"""Tell in words how a log entry was decided: every rule in order, with the figures that the entry has recorded.

An entry records what it was decided by, not all that was known then: an approval has the agent's amounts after it, a
refusal the amounts that its rule compared. Where nothing is recorded, a rule is only said to have passed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any

from ledger.models import LogEntry, Result
from policy.rule import Figure, Rule, Said
from policy.rules import RULES, SIGNER_RULE, words_of_refusal

APPROVAL = "Every rule passed"
_SPENT, _MADE = "Spent before", "Made before"
_COMPARED = {"limit": "Limit", "spent": _SPENT, "requested": "Asked for", "remaining": "Would have fitted"}


class Outcome(StrEnum):
    """What a rule said: it passed, it refused, or another had refused before it."""

    PASSED = "passed"
    REFUSED = "refused"
    NOT_NEEDED = "not_needed"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A rule and what it said of one payment. `share`: the part of its limit that was used after it, from 0 to 1."""

    title: str
    outcome: Outcome
    words: str = ""
    figures: tuple[tuple[str, Figure], ...] = ()
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """A decision in words. `fits_at`: when the same payment fits, if it does; `can_wait`: whether time matters.

    `escrow_id`: what its chain knows the payment by; older entries do not say it.
    """

    judgements: tuple[Judgement, ...]
    words: str
    recipient: str | None
    escrow_id: str | None
    fits_at: datetime | None
    can_wait: bool


def words_of(entry: LogEntry) -> str:
    """Say in a few words how an entry was decided."""
    return APPROVAL if entry.result == Result.APPROVED else words_of_refusal(entry.rule).refused


def tell(entry: LogEntry) -> Told:
    """Tell how an entry was decided, by what it has recorded; what somebody made unreadable is left out."""
    explanation = read_explanation(entry)
    is_approved = entry.result == Result.APPROVED
    judgements = _approved(entry, explanation) if is_approved else _refused(entry, explanation)
    return Told(
        judgements=tuple(judgements),
        words=str(explanation.get("message") or words_of(entry)),
        recipient=_text(explanation.get("recipient")),
        escrow_id=_text(explanation.get("escrowId")),
        fits_at=_moment(explanation.get("allowedAt")),
        can_wait="allowedAt" in explanation,
    )


def read_explanation(entry: LogEntry) -> dict[str, Any]:
    """Read an explanation; {} if somebody made it unreadable, which the hash reveals as well."""
    try:
        explanation: Any = entry.explanation
    except ValueError:
        return {}
    return explanation if isinstance(explanation, dict) else {}


def _approved(entry: LogEntry, explanation: Mapping[str, Any]) -> list[Judgement]:
    paid, judgements = _number(entry.amount), []
    for rule in _rules_shown(
        lambda rule: rule.record is not None and any(one in explanation for one in rule.record.names)
    ):
        said = _read_record(rule, paid, explanation)
        words = "; ".join(f"{label}: {text}" for label, text in said.texts)
        judgements.append(Judgement(rule.words.passed, Outcome.PASSED, words, said.figures, said.share))
    return judgements


def _rules_shown(is_recorded: Callable[[Rule], bool]) -> list[Rule]:
    """Give the rules of every policy, and those optional ones of which the entry has something."""
    return [rule for rule in (*RULES, SIGNER_RULE) if rule.is_on is None or is_recorded(rule)]


def _read_record(rule: Rule, paid: Decimal | None, explanation: Mapping[str, Any]) -> Said:
    """Read what an approval has recorded of a rule; nothing, if it does not fit or is unreadable."""
    if rule.record is None or paid is None:
        return Said()
    values = [_recorded(explanation.get(name)) for name in rule.record.names]
    try:
        return rule.record.say(paid, *values)
    except (TypeError, ArithmeticError):
        return Said()


def _recorded(text: Any) -> Figure | str | None:
    """Read a number without a point, an amount, or a text."""
    if isinstance(text, str) and text.isascii() and text.isdecimal():
        return int(text)
    number = _number(text)
    return _text(text) if number is None else number


def _refused(entry: LogEntry, explanation: Mapping[str, Any]) -> list[Judgement]:
    """Give the rules before the one that refused, and that one. Those behind it are not needed any more."""
    judgements, outcome = [], Outcome.PASSED
    for rule in _rules_shown(lambda rule: rule.name == entry.rule):
        if rule.name == entry.rule:
            compared = [(label, _recorded(explanation.get(name))) for name, label in _COMPARED.items()]
            figures = tuple(
                (_MADE if isinstance(figure, int) and label == _SPENT else label, figure)
                for label, figure in compared
                if isinstance(figure, Decimal | int)
            )
            words = str(explanation.get("message", ""))
            judgements.append(Judgement(rule.words.refused, Outcome.REFUSED, words, figures))
            outcome = Outcome.NOT_NEEDED
        else:
            judgements.append(Judgement(rule.words.passed, outcome))
    return judgements


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _number(text: Any) -> Decimal | None:
    try:
        number = Decimal(text) if isinstance(text, str) else None
    except InvalidOperation:
        return None
    return number if number is not None and number.is_finite() else None


def _moment(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
