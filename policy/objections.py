"""What can speak against a payment: one check for each rule of the policy, and the amounts that it compares. Pure.

Windows are half-open, `(now - 24 h, now]` and `(now - 7 d, now]`; a limit is crossed by `spent + amount > limit`.
Source: docs/interface-specification.md, "Limits"; docs/contract.md, "Rules and their names".
"""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from foundation.kernel.money import format_amount
from policy.facts import Facts

DAY, WEEK = timedelta(hours=24), timedelta(days=7)
NOT_ON_THE_LIST = "The agent's policy does not allow this service."  # the log is searched for it, see `ledger.preview`


@dataclass(frozen=True, slots=True)
class Wait:
    """The same payment fits a limit once the spend within the rolling `window` is down to `most_spent`."""

    window: timedelta
    most_spent: Decimal


@dataclass(frozen=True, slots=True)
class Figures:
    """The amounts that a rule compares, None where it has none; `remaining`: the most that it lets pass now."""

    limit: Decimal | None = None
    spent: Decimal | None = None
    requested: Decimal | None = None
    remaining: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a rule decided as it did: a sentence, and the amounts that it compared.

    `waits_for`: what has to come to pass before the same payment is not objected to; empty: waiting does not help.
    """

    message: str
    figures: Figures = Figures()
    waits_for: tuple[Wait, ...] = ()


def agent_is_active(facts: Facts) -> Explanation | None:
    """Object to an agent that is paused."""
    return None if facts.agent_is_active else Explanation("The agent is paused: all its payments fail closed.")


def service_is_approved(facts: Facts) -> Explanation | None:
    """Object to a payee that is unknown, not approved as it is registered now, or not allowed by the policy."""
    if facts.payee is None:
        return Explanation("No service of this id is registered.")
    if not facts.payee.is_approved:
        return Explanation("The service, as it is registered now, is not approved.")
    if facts.payee.wants_it_elsewhere:
        return Explanation("The payment requirements name another recipient or chain than the service's approved one.")
    if facts.allowed_services is not None and facts.payee.id not in facts.allowed_services:
        return Explanation(NOT_ON_THE_LIST)
    return None


def service_is_payable(facts: Facts) -> Explanation | None:
    """Object to a payee that cannot be paid so until somebody changes something: waiting alone does not help."""
    if facts.payee is None or facts.payee.obstacle is None:
        return None
    return Explanation(facts.payee.obstacle.message, of_obstacle(facts))


def of_obstacle(facts: Facts) -> Figures:
    """Give the amounts that `service_is_payable` compares: `limit` is the least that could be paid."""
    obstacle = None if facts.payee is None else facts.payee.obstacle
    if obstacle is None or obstacle.least is None:
        return Figures()
    return Figures(limit=obstacle.least, requested=facts.amount)


def asset_matches(facts: Facts) -> Explanation | None:
    """Object to an asset other than the allowance's or the payee's."""
    if facts.asset != facts.agent_asset:
        return Explanation(f"The allowance is in {facts.agent_asset}, not in {facts.asset}.")
    if facts.payee is not None and facts.asset != facts.payee.asset:
        return Explanation(f"The service is paid in {facts.payee.asset}, not in {facts.asset}.")
    return None


def above_minimum(facts: Facts) -> Explanation | None:
    """Block an amount below the least that is paid in this asset on the payee's chain: it costs more than it moves."""
    if facts.minimum is None or facts.amount >= facts.minimum:
        return None
    message = f"The least that is paid to this service is {format_amount(facts.minimum)} {facts.asset}."
    return Explanation(message, of_minimum(facts))


def of_minimum(facts: Facts) -> Figures:
    """Give the amounts that `above_minimum` compares."""
    return Figures(limit=facts.minimum, requested=facts.amount)


def balance_covers_payment(facts: Facts) -> Explanation | None:
    """Object to an amount above the balance."""
    if facts.amount <= facts.balance:
        return None
    return Explanation(f"The balance is {format_amount(facts.balance)} {facts.asset}.", of_balance(facts))


def of_balance(facts: Facts) -> Figures:
    """Give the amounts that `balance_covers_payment` compares."""
    return Figures(requested=facts.amount, remaining=facts.balance)


def under_weekly_limit(facts: Facts) -> Explanation | None:
    """Object to what would lift the spend of the rolling seven days above its limit."""
    return check_window(facts, "weekly", WEEK, limit=facts.weekly_limit, spent=facts.spent_this_week)


def of_week(facts: Facts) -> Figures:
    """Give the amounts that `under_weekly_limit` compares."""
    return compare_window(facts, limit=facts.weekly_limit, spent=facts.spent_this_week)


def under_daily_limit(facts: Facts) -> Explanation | None:
    """Object to what would lift the spend of the rolling 24 hours above its limit."""
    return check_window(facts, "daily", DAY, limit=facts.daily_limit, spent=facts.spent_today)


def of_day(facts: Facts) -> Figures:
    """Give the amounts that `under_daily_limit` compares."""
    return compare_window(facts, limit=facts.daily_limit, spent=facts.spent_today)


def under_max_payment(facts: Facts) -> Explanation | None:
    """Object to an amount above the limit of a single payment."""
    if facts.amount <= facts.max_per_payment:
        return None
    message = f"A single payment may not exceed {format_amount(facts.max_per_payment)} {facts.asset}."
    return Explanation(message, of_payment(facts))


def of_payment(facts: Facts) -> Figures:
    """Give the amounts that `under_max_payment` compares."""
    return Figures(limit=facts.max_per_payment, requested=facts.amount, remaining=facts.max_per_payment)


def check_window(facts: Facts, name: str, window: timedelta, *, limit: Decimal, spent: Decimal) -> Explanation | None:
    """Object to what would lift the spend within a rolling window above a limit, and say what it has to wait for."""
    if spent + facts.amount <= limit:
        return None
    return Explanation(
        f"The {name} limit is {format_amount(limit)} {facts.asset}, of which {format_amount(spent)} is spent.",
        compare_window(facts, limit=limit, spent=spent),
        waits_for=(Wait(window, limit - facts.amount),) if facts.amount <= limit else (),
    )


def compare_window(facts: Facts, *, limit: Decimal, spent: Decimal) -> Figures:
    """Give the amounts that `check_window` compares."""
    return Figures(limit, spent, facts.amount, remaining=max(limit - spent, Decimal(0)))
