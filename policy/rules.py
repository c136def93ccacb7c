"""The policy, as pure functions: facts in, a decision out.

Each rule is a predicate with a name; the first that fails blocks and names the decision, and if all pass the last
one names it. Amounts are in units of the allowance's asset; windows are half-open, `(now - 24 h, now]` and
`(now - 7 d, now]`, and a limit is crossed when `spent + amount > limit`.
Source: docs/interface-specification.md, "Errors" and "Limits"; docs/contract.md, "Rules and their names".
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, localcontext

from allowance.kernel.money import EXACT, format_amount

DAY = timedelta(hours=24)
WEEK = timedelta(days=7)

SIGNER_RULE = "policy_signer_available"


@dataclass(frozen=True, slots=True)
class PayeeFacts:
    """What is known of a registered service at the moment of decision."""

    id: str
    is_approved: bool
    asset: str


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a decision depends on.

    `allowed_services` None means every approved service; `payee` None: unknown; `minimum` None: any amount will do.
    """

    amount: Decimal
    asset: str
    agent_is_active: bool
    agent_asset: str
    balance: Decimal
    max_per_payment: Decimal
    daily_limit: Decimal
    weekly_limit: Decimal
    spent_today: Decimal
    spent_this_week: Decimal
    allowed_services: frozenset[str] | None
    payee: PayeeFacts | None
    minimum: Decimal | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a rule decided as it did: a sentence, and the amounts it compared, where it compares amounts.

    `waits_for` lists the rolling windows that have to move on before the same payment passes; empty: waiting does
    not help.
    """

    message: str
    limit: Decimal | None = None
    spent: Decimal | None = None
    requested: Decimal | None = None
    remaining: Decimal | None = None
    waits_for: tuple[timedelta, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome: approved or blocked, by which rule, and why."""

    is_approved: bool
    rule: str
    explanation: Explanation


Rule = Callable[[Facts], Explanation | None]


def evaluate(facts: Facts) -> Decision:
    """Judge one payment. Total: every set of facts has a decision."""
    with localcontext(EXACT):
        for rule in RULES:
            objection = rule(facts)
            if objection is not None:
                return Decision(is_approved=False, rule=rule.__name__, explanation=objection)
    return Decision(is_approved=True, rule=RULES[-1].__name__, explanation=Explanation("Every rule passed."))


def agent_active(facts: Facts) -> Explanation | None:
    """Block when the agent is paused."""
    return None if facts.agent_is_active else Explanation("The agent is paused: all its payments fail closed.")


def service_approved(facts: Facts) -> Explanation | None:
    """Block when the payee is unknown, not approved as it is registered now, or not allowed by the policy."""
    if facts.payee is None:
        return Explanation("No service of this id is registered.")
    if not facts.payee.is_approved:
        return Explanation("The service, as it is registered now, is not approved.")
    if facts.allowed_services is not None and facts.payee.id not in facts.allowed_services:
        return Explanation("The agent's policy does not allow this service.")
    return None


def asset_matches(facts: Facts) -> Explanation | None:
    """Block an asset other than the allowance's or the payee's."""
    if facts.asset != facts.agent_asset:
        return Explanation(f"The allowance is in {facts.agent_asset}, not in {facts.asset}.")
    if facts.payee is not None and facts.asset != facts.payee.asset:
        return Explanation(f"The service is paid in {facts.payee.asset}, not in {facts.asset}.")
    return None


def above_minimum(facts: Facts) -> Explanation | None:
    """Block an amount below the least that is paid in this asset on the payee's chain: it costs more than it moves."""
    if facts.minimum is None or facts.amount >= facts.minimum:
        return None
    return Explanation(
        f"The least that is paid to this service is {format_amount(facts.minimum)} {facts.asset}.",
        limit=facts.minimum,
        requested=facts.amount,
    )


def balance_covers_payment(facts: Facts) -> Explanation | None:
    """Block an amount above the balance."""
    if facts.amount <= facts.balance:
        return None
    return Explanation(
        f"The balance is {format_amount(facts.balance)} {facts.asset}.",
        requested=facts.amount,
        remaining=facts.balance,
    )


def under_weekly_limit(facts: Facts) -> Explanation | None:
    """Block what would lift the spend of the rolling 7 days above the limit."""
    return _over_window(facts, "weekly", facts.weekly_limit, facts.spent_this_week)


def under_daily_limit(facts: Facts) -> Explanation | None:
    """Block what would lift the spend of the rolling 24 hours above the limit."""
    return _over_window(facts, "daily", facts.daily_limit, facts.spent_today)


def under_max_payment(facts: Facts) -> Explanation | None:
    """Block an amount above the limit of a single payment."""
    if facts.amount <= facts.max_per_payment:
        return None
    return Explanation(
        f"A single payment may not exceed {format_amount(facts.max_per_payment)} {facts.asset}.",
        limit=facts.max_per_payment,
        requested=facts.amount,
        remaining=facts.max_per_payment,
    )


RULES: tuple[Rule, ...] = (
    agent_active,
    service_approved,
    asset_matches,
    above_minimum,
    balance_covers_payment,
    under_weekly_limit,
    under_daily_limit,
    under_max_payment,
)


def _over_window(facts: Facts, name: str, limit: Decimal, spent: Decimal) -> Explanation | None:
    if spent + facts.amount <= limit:
        return None
    return Explanation(
        f"The {name} limit is {format_amount(limit)} {facts.asset}, of which {format_amount(spent)} is spent.",
        limit=limit,
        spent=spent,
        requested=facts.amount,
        remaining=max(limit - spent, Decimal(0)),
        waits_for=_windows_to_wait_for(facts),
    )


def _windows_to_wait_for(facts: Facts) -> tuple[timedelta, ...]:
    if facts.amount > min(facts.max_per_payment, facts.daily_limit, facts.weekly_limit):
        return ()
    windows = ((WEEK, facts.weekly_limit, facts.spent_this_week), (DAY, facts.daily_limit, facts.spent_today))
    return tuple(window for window, limit, spent in windows if spent + facts.amount > limit)
