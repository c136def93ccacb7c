"""An agent's rolling windows while its history is made, by the same bounds as the ledger's: (now - width, now]."""

from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from policy.objections import DAY, WEEK


@dataclass(slots=True)
class Spend:
    """An approved amount; zero once it was given back."""

    at: datetime
    amount: Decimal


class Window:
    """The spend within one rolling window."""

    def __init__(self, width: timedelta) -> None:
        self._width = width
        self._spends: deque[Spend] = deque()
        self.total = Decimal(0)

    def advance(self, now: datetime) -> None:
        """Let what is too old leave."""
        while self._spends and self._spends[0].at <= now - self._width:
            self.total -= self._spends.popleft().amount

    def add(self, spend: Spend) -> None:
        """Let an approved payment enter."""
        self._spends.append(spend)
        self.total += spend.amount

    def give_back(self, spend: Spend, now: datetime) -> None:
        """Take a failed payment out, if it is still inside; its amount becomes zero when all windows know."""
        if spend.at > now - self._width:
            self.total -= spend.amount

    def fits_at(self, headroom: Decimal, now: datetime) -> datetime:
        """Find the moment from which the window holds at most `headroom`, if nothing more is paid."""
        left, moment = self.total, now
        for spend in self._spends:
            if left <= headroom:
                break
            left -= spend.amount
            moment = spend.at + self._width
        return moment


class Windows:
    """Both windows of an agent."""

    def __init__(self) -> None:
        self.day, self.week = Window(DAY), Window(WEEK)

    def advance(self, now: datetime) -> None:
        """Let what is too old leave."""
        self.day.advance(now)
        self.week.advance(now)

    def add(self, at: datetime, amount: Decimal) -> Spend:
        """Let an approved payment enter; returns what `give_back` takes out."""
        spend = Spend(at, amount)
        self.day.add(spend)
        self.week.add(spend)
        return spend

    def give_back(self, spend: Spend, now: datetime) -> None:
        """Take a failed payment out of the windows in which it still is."""
        self.advance(now)
        self.day.give_back(spend, now)
        self.week.give_back(spend, now)
        spend.amount = Decimal(0)

    def fits_at(self, window: timedelta, headroom: Decimal, now: datetime) -> datetime:
        """Find the moment from which one of the windows holds at most `headroom`."""
        return (self.day if window == DAY else self.week).fits_at(headroom, now)
