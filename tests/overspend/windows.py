"""What was spent in every rolling window, summed anew: over the answers, the log, the payments and the levels. Pure.

What an agent pays is spent by all above it, too: who these were, its log entry has signed.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from operator import itemgetter

from tests.overspend.answers import Told
from tests.overspend.evidence import NOTHING, Account, Evidence, Limits

_DAY, _WEEK = timedelta(hours=24), timedelta(days=7)

Spend = tuple[datetime, Decimal]
Spends = Mapping[str, Sequence[Spend]]


@dataclass(frozen=True, slots=True)
class Window:
    """The rolling window of an agent that comes nearest to its limit, or is furthest over it."""

    allowed: Decimal
    spent: Decimal

    @property
    def over(self) -> Decimal:
        return self.spent - self.allowed


def worst_window(limits: Sequence[Limits], spends: Sequence[Spend]) -> Window:
    """Sum each rolling window that ends with a payment, and find the one that is nearest to its limit, or over it."""
    windows = [Window(min(limits[0].day, limits[0].week), NOTHING)]
    for end, amount in spends:
        # What is decided in the very moment of a change may be decided by either.
        now = next(one for one in reversed(limits) if one.since is None or one.since < end)
        if amount > now.payment:
            windows.append(Window(now.payment, amount))
        for length, limit in ((_DAY, now.day), (_WEEK, now.week)):
            within = (paid for at, paid in spends if end - length < at <= end)
            windows.append(Window(limit, sum(within, NOTHING)))
    return max(windows, key=lambda window: window.over)


def worst_of_all(account: Account, evidence: Evidence) -> Window:
    """Find an agent's worst window in any of the counts."""
    windows = [worst_window(account.limits, count(evidence).get(account.agent, ())) for count in COUNTS.values()]
    return max(windows, key=lambda window: window.over)


def find_late(evidence: Evidence) -> Iterator[Told]:
    """List what was approved although it was sent after its owner knew that nothing passes any more."""
    closed = {one.agent: one.closed_at for one in evidence.accounts if one.closed_at is not None}
    for told in evidence.told:
        is_new = told.is_approved and not told.answer.is_replay
        if is_new and told.answer.sent_at > closed.get(told.agent, float("inf")):
            yield told


def told_spends(evidence: Evidence) -> Spends:
    """List what clients were told that they had spent, in the amounts that they had asked for."""
    told = evidence.approvals.items()
    return _by_agent(
        (judge, one.created_at, one.amount) for payment, one in told for judge in _judges(one.agent, payment, evidence)
    )


def logged_spends(evidence: Evidence) -> Spends:
    approved = [one for one in evidence.entries if one.is_approved]
    return _by_agent((judge, one.created_at, one.amount) for one in approved for judge in (one.agent, *one.levels))


def paid_spends(evidence: Evidence) -> Spends:
    return _by_agent(
        (judge, one.created_at, one.amount)
        for one in evidence.payments
        for judge in _judges(one.agent, one.id, evidence)
    )


def level_spends(evidence: Evidence) -> Spends:
    """List what agents count of those below them, with their own payments."""
    own = [(one.agent, one.created_at, one.amount) for one in evidence.payments]
    below = [(one.level, one.created_at, one.amount) for one in evidence.counted]
    return _by_agent(sorted([*own, *below], key=itemgetter(1)))


def _judges(agent: str, payment_id: str, evidence: Evidence) -> Sequence[str]:
    return agent, *evidence.levels.get(payment_id, ())


COUNTS: Mapping[str, Callable[[Evidence], Spends]] = {
    "answers": told_spends,
    "log": logged_spends,
    "payments": paid_spends,
    "levels": level_spends,
}


def _by_agent(spends: Iterable[tuple[str, datetime, Decimal]]) -> Spends:
    found = defaultdict(list)
    for agent, at, amount in spends:
        found[agent].append((at, amount))
    return found
