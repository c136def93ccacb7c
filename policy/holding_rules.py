"""The rules by which a payment is held until a person has approved it, and the one of that person. Pure."""

from collections.abc import Callable
from decimal import Decimal

from foundation.kernel.errors import ApprovalDeclined
from foundation.kernel.money import format_amount
from policy.facts import Facts
from policy.more_limits import MoreLimits
from policy.rule import NO_FIGURES, Explanation, Figures, Record, Rule, Said, Words


def _paid_before(facts: Facts) -> Explanation | None:
    if not facts.more.approval_for_first or facts.counted.payee_payments:
        return None
    return Explanation("It is the agent's first payment to this payee: a person has to approve it.")


def _above_day(facts: Facts) -> Explanation | None:
    """Object to what lifts the spend of a day above what needs no approval: to split a payment does not help."""
    limit = facts.more.approval_above_day
    if limit is None or facts.spent_today + facts.amount <= limit:
        return None
    spent = format_amount(facts.spent_today)
    return Explanation(
        f"A person has to approve what lifts the spend of 24 hours above {format_amount(limit)} {facts.asset}, "
        f"of which {spent} is spent."
    )


def _figures_of_day(facts: Facts) -> Figures:
    limit, spent = facts.more.approval_above_day, facts.spent_today
    if limit is None:
        return NO_FIGURES
    return Figures(limit, spent, facts.amount, remaining=max(limit - spent, Decimal(0)))


def _figures_of_single(facts: Facts) -> Figures:
    limit = facts.more.approval_above
    return NO_FIGURES if limit is None else Figures(limit, requested=facts.amount, remaining=limit)


def _record(name: str, limit: Callable[[MoreLimits], Decimal | None]) -> Record:
    """Make the record of what is paid without asking a person."""
    names = (name,)
    return Record(
        names,
        lambda facts: (limit(facts.more),),
        lambda _paid, without: Said((("Without approval", without),)),
        frozenset(names),
    )


def _above_single(facts: Facts) -> Explanation | None:
    limit = facts.more.approval_above
    if limit is None or facts.amount <= limit:
        return None
    return Explanation(f"A person has to approve a payment above {format_amount(limit)} {facts.asset}.")


HOLDING: tuple[Rule, ...] = (
    Rule(
        "payee_paid_before",
        ApprovalDeclined,
        _paid_before,
        Words("The payee was paid before", "The first payment to this payee", "first payment"),
        varies=True,
        parts=("approval_for_first",),
        examples=({"more": MoreLimits(approval_for_first=True)},),
        holds=True,
    ),
    Rule(
        "under_daily_approval_limit",
        ApprovalDeclined,
        _above_day,
        Words("The day needs no approval", "Above what a day has without approval", "approval per day"),
        varies=True,
        figures=_figures_of_day,
        record=_record("approvalAboveDay", lambda more: more.approval_above_day),
        parts=("approval_above_day",),
        examples=({"more": MoreLimits(approval_above_day=Decimal(12))},),
        holds=True,
    ),
    Rule(
        "under_approval_limit",
        ApprovalDeclined,
        _above_single,
        Words("Needs no approval", "Above what is paid without approval", "approval needed"),
        varies=True,
        figures=_figures_of_single,
        record=_record("approvalAbove", lambda more: more.approval_above),
        parts=("approval_above",),
        examples=({"more": MoreLimits(approval_above=Decimal("0.25"))},),
        holds=True,
    ),
)
# No question of facts: a person answers it.
PERSON_RULE = Rule(
    "approved_by_person",
    ApprovalDeclined,
    lambda _facts: None,
    Words("A person has approved it", "Nobody has approved it", "not approved by a person"),
    varies=False,
)
