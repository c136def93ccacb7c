"""What can speak against a payment: each rule's check, the amounts that it compares, and what is recorded. Pure.

Windows are half-open, `(now - 24 h, now]` and `(now - 7 d, now]`; a limit is crossed by `spent + amount > limit`.
Source: docs/interface-specification.md, "Limits"; docs/contract.md, "Rules and their names".
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from foundation.kernel.money import EXACT, format_amount
from policy.facts import Facts
from policy.limits import is_allowed
from policy.rule import NO_FIGURES, Explanation, Figures, Measure, Record, Said, Wait
from policy.tags import write_tags

DAY, WEEK = timedelta(hours=24), timedelta(days=7)
NOT_ON_THE_LIST = "The agent's policy does not allow this service."  # the log is searched for it, see `ledger.preview`


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
    if not is_allowed(facts.payee.id, facts.payee.tags, facts.allowed_services, facts.more.allowed_tags):
        return Explanation(NOT_ON_THE_LIST)
    return None


def _record_tags(facts: Facts) -> tuple[str | None, str | None]:
    allowed, payee = facts.more.allowed_tags, facts.payee
    if allowed is None or payee is None:
        return None, None
    return write_tags(allowed), write_tags(sorted(payee.tags)) or None


def _say_tags(_paid: Decimal, allowed: str | None, of_payee: str | None) -> Said:
    if allowed is None:
        return Said()
    return Said(texts=(("Allowed tags", allowed), ("Tags of the payee", of_payee or "none")))


TAGS = Record(("allowedTags", "payeeTags"), _record_tags, _say_tags, frozenset(("allowedTags",)))


def service_is_payable(facts: Facts) -> Explanation | None:
    """Object to a payee that cannot be paid so until somebody changes something: waiting alone does not help."""
    if facts.payee is None or facts.payee.obstacle is None:
        return None
    return Explanation(facts.payee.obstacle.message)


def of_obstacle(facts: Facts) -> Figures:
    """Give the amounts that `service_is_payable` compares: `limit` is the least that could be paid."""
    obstacle = None if facts.payee is None else facts.payee.obstacle
    if obstacle is None or obstacle.least is None:
        return NO_FIGURES
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
    return Explanation(f"The least that is paid to this service is {format_amount(facts.minimum)} {facts.asset}.")


def balance_covers_payment(facts: Facts) -> Explanation | None:
    """Object to an amount above the balance."""
    if facts.amount <= facts.balance:
        return None
    return Explanation(f"The balance is {format_amount(facts.balance)} {facts.asset}.")


def _say_balance(paid: Decimal, after: Decimal) -> Said:
    return Said((("Before", EXACT.add(after, paid)), ("This payment", paid), ("After", after)))


BALANCE = Record(("balance",), lambda facts: (facts.balance - facts.amount,), _say_balance)


@dataclass(frozen=True, slots=True)
class WindowLimit:
    """A limit of what is spent within a rolling window, or ever (None); `limit` gives None where there is none.

    `records`: the names of the spend after a payment, and of the limit, in the `explanation` of an approval's entry.
    """

    name: str
    window: timedelta | None
    limit: Callable[[Facts], Decimal | None]
    spent: Callable[[Facts], Decimal]
    records: tuple[str, str]
    measure: Measure = Measure.SPENT

    def check(self, facts: Facts) -> Explanation | None:
        """Object to what would lift the spend above the limit, and say what it has to wait for."""
        limit, spent = self.limit(facts), self.spent(facts)
        if limit is None or spent + facts.amount <= limit:
            return None
        waits_for: tuple[Wait, ...] = ()
        if self.window is not None and facts.amount <= limit:
            waits_for = (Wait(self.window, limit - facts.amount, self.measure),)
        return Explanation(
            f"The {self.name} is {format_amount(limit)} {facts.asset}, of which {format_amount(spent)} is spent.",
            waits_for,
        )

    def figures(self, facts: Facts) -> Figures:
        """Give the amounts that `check` compares."""
        limit, spent = self.limit(facts), self.spent(facts)
        if limit is None:
            return NO_FIGURES
        return Figures(limit, spent, facts.amount, remaining=max(limit - spent, Decimal(0)))

    @property
    def record(self) -> Record:
        """What the entry of an approval has of it."""
        return Record(self.records, self._recorded, _say_window, frozenset(self.records[1:]), self.records)

    def _recorded(self, facts: Facts) -> tuple[Decimal | None, ...]:
        limit = self.limit(facts)
        return (None, None) if limit is None else (self.spent(facts) + facts.amount, limit)


def _say_window(paid: Decimal, spent: Decimal, limit: Decimal) -> Said:
    before, left = EXACT.subtract(spent, paid), EXACT.subtract(limit, spent)
    figures = (("Limit", limit), ("Spent before", before), ("This payment", paid), ("Left after", left))
    return Said(figures, share=float(spent / limit) if limit else None)


WEEKLY = WindowLimit(
    "weekly limit",
    WEEK,
    lambda facts: facts.weekly_limit,
    lambda facts: facts.spent_this_week,
    ("spentThisWeek", "weeklyLimit"),
)
DAILY = WindowLimit(
    "daily limit", DAY, lambda facts: facts.daily_limit, lambda facts: facts.spent_today, ("spentToday", "dailyLimit")
)


def under_max_payment(facts: Facts) -> Explanation | None:
    """Object to an amount above the limit of a single payment."""
    if facts.amount <= facts.max_per_payment:
        return None
    return Explanation(f"A single payment may not exceed {format_amount(facts.max_per_payment)} {facts.asset}.")


def say_single(paid: Decimal, limit: Decimal) -> Said:
    """Say what an approval has of a limit of single payments."""
    return Said((("Limit", limit), ("This payment", paid)))


PER_PAYMENT = Record(
    ("maxPerPayment",),
    lambda facts: (facts.max_per_payment,),
    say_single,
    frozenset(("maxPerPayment",)),
    (None, "maxPerPayment"),
)
