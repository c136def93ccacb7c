"""What an agent did, as `ledger.replay` judges it anew, and what rolling windows hold of what was spent."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from foundation.kernel.money import EXACT
from policy.more_limits import MoreLimits
from policy.more_objections import HOUR, MONTH
from policy.objections import DAY, WEEK


class Past(NamedTuple):
    """A decision as the log has it. `is_off_list`: refused because the policy did not allow the service.

    `repairs` counts the clock repairs before it. `is_judged`: it is within the time that is judged anew. One that is
    not may stand for several: `payments` says for how many, 0 if nobody asks; without a `service` for those to any.
    `was_asked`: a person had to approve it. `is_of_others`: the policy of another agent of its tree refused it, or
    asked that person. `payer`: the agent below that paid, as its level counts it under this `number`; None: the agent
    itself.
    """

    at: datetime
    id: str
    service: str
    amount: Decimal
    asset: str
    rule: str
    is_approved: bool
    is_off_list: bool
    payment_id: str | None
    repairs: int
    is_judged: bool
    payments: int = 1
    was_asked: bool = False
    is_of_others: bool = False
    payer: str | None = None
    number: int = 0

    def moment(self) -> tuple[datetime, bool, int, str]:
        """Return what orders by time: what was paid below comes first, so that what was refused then stays refused."""
        return self.at, self.payer is None, self.number, self.id


class Move(NamedTuple):
    """A movement of the balance that is no payment; one with `spent_at` gives the payment to `payee` back.

    `is_below`: it is of an agent below, whose balance is another one.
    """

    at: datetime
    amount: Decimal
    spent_at: datetime | None
    payment_id: str | None
    payee: str | None = None
    is_below: bool = False


class Repair(NamedTuple):
    """A clock repair; entries dated after `repaired_at` count until `head_at` has left the window."""

    number: int
    repaired_at: datetime
    head_at: datetime


class Payee(NamedTuple):
    """A payee as it is now: its asset, the least that is paid to it, since when it is approved, and its tags."""

    asset: str
    minimum: Decimal | None
    approved_at: datetime | None = None
    tags: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class History:
    """What an agent did: decisions in the order of its hash chain, the other movements by time.

    As it was before all of it: `balance`; `spent`, ever; `paid`, the number of payments to each payee. What was given
    back by then is in neither of the latter two, and they are needed only where a limit is about them.
    """

    asset: str
    balance: Decimal
    decisions: Sequence[Past]
    moves: Sequence[Move] = ()
    repairs: Sequence[Repair] = ()
    payees: Mapping[str, Payee] = field(default_factory=dict)
    spent: Decimal = Decimal(0)
    paid: Mapping[str, int] = field(default_factory=dict)


class GivenBack(NamedTuple):
    """A payment that was given back, as a spend: of the moment when it was spent, and negative.

    It has no moment but its own, whatever clock was repaired (`repairs`): as in `sql/windows.sql`.
    """

    at: datetime
    amount: Decimal
    service: str | None
    payments: int = -1
    repairs: None = None


Spend = Past | GivenBack


def lengths_of_windows(more: MoreLimits) -> list[timedelta]:
    """Return the lengths of the windows in which a policy with these optional limits sums or counts all payments."""
    has_hour = more.hourly_limit is not None or more.payments_per_hour is not None
    has_month = more.monthly_limit is not None
    return [*([HOUR] if has_hour else []), DAY, WEEK, *([MONTH] if has_month else [])]


def limits_payees(more: MoreLimits) -> bool:
    """Tell whether a limit is about what was paid to a payee within a window."""
    return any(one is not None for one in (more.payee_daily_limit, more.payee_weekly_limit, more.payee_limits))


class Window:
    """What a rolling window holds. `first` is the place of the first spend in it; `gone` has what is before that."""

    __slots__ = ("amount", "first", "gone_amount", "gone_payments", "payments")

    def __init__(self) -> None:
        self.first = 0
        self.amount, self.payments = self.gone_amount, self.gone_payments = Decimal(0), 0


class Windows:
    """What was spent in the rolling windows that end with the decision at hand: `(now - length, now]`.

    They move on with time; what is added may be of any moment.
    """

    def __init__(self, lengths: Iterable[timedelta]) -> None:
        self._spends: list[Spend] = []  # by their moments
        self._moments: list[datetime] = []
        self._windows = {length: Window() for length in lengths}
        self._amount, self._payments = Decimal(0), 0  # of all of them

    def add(self, spend: Spend) -> None:
        """Add what was spent, or given back, before the decision at hand."""
        self._amount = EXACT.add(self._amount, spend.amount)
        self._payments += spend.payments
        moments, at = self._moments, spend.at
        if not moments or moments[-1] <= at:
            moments.append(at)
            self._spends.append(spend)
            return
        place = bisect_right(moments, at)
        moments.insert(place, at)
        self._spends.insert(place, spend)
        for window in self._windows.values():
            if place < window.first:
                window.first += 1
                window.gone_amount = EXACT.add(window.gone_amount, spend.amount)
                window.gone_payments += spend.payments

    def at(self, now: datetime) -> Mapping[timedelta, Window]:
        """Return the windows by their lengths, with what they hold now."""
        moments, count = self._moments, len(self._moments)
        for length, window in self._windows.items():
            since, first = now - length, window.first
            while first < count and moments[first] <= since:
                spend = self._spends[first]
                window.gone_amount = EXACT.add(window.gone_amount, spend.amount)
                window.gone_payments += spend.payments
                first += 1
            window.first = first
            window.amount = EXACT.subtract(self._amount, window.gone_amount)
            window.payments = self._payments - window.gone_payments
        return self._windows
