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

from foundation.kernel.money import EXACT
from ledger.models import LogEntry, Result
from policy.rules import RULES, SIGNER_RULE, find_rule, words_of_refusal

APPROVAL = "Every rule passed"
_COMPARED = {"limit": "Limit", "spent": "Spent before", "requested": "Asked for", "remaining": "Would have fitted"}


class Outcome(StrEnum):
    """What a rule said: it passed, it refused, or another had refused before it."""

    PASSED = "passed"
    REFUSED = "refused"
    NOT_NEEDED = "not_needed"


@dataclass(frozen=True, slots=True)
class Figure:
    """A recorded amount and what it is."""

    label: str
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Step:
    """A rule and what it said of one payment. `share`: the part of its limit that was used after it, from 0 to 1."""

    title: str
    outcome: Outcome
    words: str = ""
    figures: tuple[Figure, ...] = ()
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """A decision in words. `fits_at`: when the same payment fits, if it does; `can_wait`: whether time matters."""

    steps: tuple[Step, ...]
    words: str
    recipient: str | None
    fits_at: datetime | None
    can_wait: bool


def words_of(entry: LogEntry) -> str:
    """Say in a few words how an entry was decided."""
    return APPROVAL if entry.result == Result.APPROVED else words_of_refusal(entry.rule).refused


def tell(entry: LogEntry) -> Told:
    """Tell how an entry was decided, by what it has recorded; what somebody made unreadable is left out."""
    explanation = read_explanation(entry)
    is_approved = entry.result == Result.APPROVED
    steps = _approved(entry, explanation) if is_approved else _refused(entry, explanation)
    recipient = explanation.get("recipient")
    return Told(
        steps=tuple(steps),
        words=str(explanation.get("message") or words_of(entry)),
        recipient=recipient if isinstance(recipient, str) else None,
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


def _approved(entry: LogEntry, explanation: Mapping[str, Any]) -> list[Step]:
    paid = _number(entry.amount)

    def after(name: str) -> Decimal | None:
        return _number(explanation.get(name))

    figures: dict[str, Callable[[], Step | None]] = {
        "balance_covers_payment": lambda: _balance(paid, after("balance")),
        "under_weekly_limit": lambda: _window("under_weekly_limit", paid, after("spentThisWeek"), after("weeklyLimit")),
        "under_daily_limit": lambda: _window("under_daily_limit", paid, after("spentToday"), after("dailyLimit")),
        "under_max_payment": lambda: _single(paid, after("maxPerPayment")),
    }
    steps = []
    for rule in (*RULES, SIGNER_RULE):
        step = figures[rule.name]() if rule.name in figures else None
        steps.append(step or Step(rule.words.passed, Outcome.PASSED))
    return steps


def _refused(entry: LogEntry, explanation: Mapping[str, Any]) -> list[Step]:
    """Give the rules before the one that refused, and that one. Those behind it are not needed any more."""
    steps, outcome = [], Outcome.PASSED
    for rule in (*RULES, SIGNER_RULE):
        if rule.name == entry.rule:
            compared = [(label, _number(explanation.get(name))) for name, label in _COMPARED.items()]
            figures = tuple(Figure(label, amount) for label, amount in compared if amount is not None)
            words = str(explanation.get("message", ""))
            steps.append(Step(rule.words.refused, Outcome.REFUSED, words, figures))
            outcome = Outcome.NOT_NEEDED
        else:
            steps.append(Step(rule.words.passed, outcome))
    return steps


def _balance(paid: Decimal | None, after: Decimal | None) -> Step | None:
    if paid is None or after is None:
        return None
    figures = (Figure("Before", EXACT.add(after, paid)), Figure("This payment", paid), Figure("After", after))
    return Step(find_rule("balance_covers_payment").words.passed, Outcome.PASSED, figures=figures)


def _window(rule: str, paid: Decimal | None, after: Decimal | None, limit: Decimal | None) -> Step | None:
    if paid is None or after is None or limit is None:
        return None
    figures = (
        Figure("Limit", limit),
        Figure("Spent before", EXACT.subtract(after, paid)),
        Figure("This payment", paid),
        Figure("Left after", EXACT.subtract(limit, after)),
    )
    return Step(
        find_rule(rule).words.passed, Outcome.PASSED, figures=figures, share=float(after / limit) if limit else None
    )


def _single(paid: Decimal | None, limit: Decimal | None) -> Step | None:
    if paid is None or limit is None:
        return None
    figures = (Figure("Limit", limit), Figure("This payment", paid))
    return Step(find_rule("under_max_payment").words.passed, Outcome.PASSED, figures=figures)


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
