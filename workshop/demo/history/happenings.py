"""What happens to an agent, one thing after the other: deposits, decisions by the product's own rules, failures."""

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from foundation.kernel.times import to_milliseconds
from payments.deciding.entries import explain_approval, explain_refusal
from policy.facts import Facts, PayeeFacts
from policy.rules import Decision, ask_rules
from policy.signer import PolicySigner
from workshop.demo.history.cast import AgentPlan, Payee, Revision
from workshop.demo.history.entries import Entry, Known, Request, seal_entry
from workshop.demo.history.windows import Spend, Windows

_FAILS = 0.004
_HAS_METADATA = 0.25
_HOURS = (2, 1, 1, 1, 1, 2, 4, 7, 10, 12, 12, 11, 10, 11, 12, 11, 9, 7, 5, 4, 4, 3, 3, 2)
_REASONS = (
    "Forecast for the route of tomorrow", "Three sources for the weekly brief", "Transcript of a support call",
    "Translation of a contract, 4 pages", "One hour of rendering", "Prices of the last trading day",
    "Check of a new customer's documents", "Photos for the spring page", "Two nights in Lisbon for the audit team",
    "Parcel to the Hamburg warehouse", "Backup of last night", "Answer to ticket",
)  # fmt: skip
_WEEKDAYS = (1, 1, 1, 1, 1, 0.35, 0.35)
_DAY = timedelta(days=1)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision; with its payee, amount and balance if it was approved, and when that failed, if it did."""

    entry: Entry
    amount: Decimal
    payee: Payee
    balance: Decimal
    failed_at: datetime | None


@dataclass(frozen=True, slots=True)
class Moved:
    """Money that came in (`payment` None) or was given back, and the balance afterwards."""

    agent_id: str
    asset: str
    at: datetime
    amount: Decimal
    balance: Decimal
    payment: Decided | None


class Life:
    """An agent's history from its beginning to a moment. Amounts are in its asset."""

    def __init__(self, plan: AgentPlan, until: datetime, signer: PolicySigner) -> None:
        self.plan, self.until = plan, until
        self.balance = self.spent_total = Decimal(0)
        self.windows = Windows()
        self.last: Entry | None = None
        self._signer = signer
        self._chance = random.Random(plan.seed)  # noqa: S311 - it makes examples
        self._returns: list[tuple[datetime, int, Decided, Spend]] = []
        self._usual_topup = self._round_up(plan.usual_amount * plan.decisions / 12 + 20)

    def live(self) -> Iterator[Decided | Moved]:
        """Go through the history; yields what happened, in order."""
        revisions = list(self.plan.revisions)
        revision = revisions.pop(0)
        for number, at in enumerate(self._moments()):
            while revisions and revisions[0].since <= at:
                revision = revisions.pop(0)
            yield from self._give_back(at)
            if self.balance < self._usual_topup / 4 and at < (self.plan.last_deposit_at or self.until):
                yield self._move(at - _MILLISECOND, self._usual_topup, None)
            yield self._decide(number, at, revision)
        yield from self._give_back(self.until)

    def _moments(self) -> list[datetime]:
        """Choose when the agent asks: by day rather than by night, less often on weekends, more often every week."""
        began, chance = self.plan.began_at, self._chance
        dates = [began + timedelta(days=day) for day in range((self.until - began).days)]
        weights = [(1 + day / len(dates)) * _WEEKDAYS[date.weekday()] for day, date in enumerate(dates)]
        moments = []
        for date in chance.choices(dates, weights, k=self.plan.decisions):
            midnight = date.replace(hour=0, minute=0, second=0, microsecond=0) + _DAY
            hour = chance.choices(range(24), _HOURS)[0]
            moments.append(midnight + timedelta(hours=hour, seconds=chance.random() * 3600))
        return _apart(sorted(one - _DAY if one >= self.until else one for one in moments), self.until)

    def _decide(self, number: int, at: datetime, revision: Revision) -> Decided:
        chance = self._chance
        request = Request(
            number, at, chance.choice(self.plan.payees), self._amount(), revision, chance.choice(_REASONS),
            has_metadata=chance.random() < _HAS_METADATA,
        )  # fmt: skip
        self.windows.advance(at)
        facts = self._facts(request)
        decision = ask_rules(facts)
        self.last = entry = self._seal(request, facts, decision)
        if not decision.is_approved:
            return Decided(entry, request.amount, request.payee, self.balance, None)
        self.balance -= request.amount
        self.spent_total = entry.spent_total
        spend = self.windows.add(at, request.amount)
        fails = self._chance.random() < _FAILS
        failed_at = to_milliseconds(at + timedelta(seconds=self._chance.uniform(960, 1500))) if fails else None
        decided = Decided(entry, request.amount, request.payee, self.balance, failed_at)
        if failed_at is not None:
            heapq.heappush(self._returns, (failed_at, number, decided, spend))
        return decided

    def _amount(self) -> Decimal:
        cents = round(self._chance.lognormvariate(0, 0.7) * float(self.plan.usual_amount) * 100)
        return Decimal(max(1, cents)) / 100

    def _facts(self, request: Request) -> Facts:
        revision, payee = request.revision, request.payee
        return Facts(
            amount=request.amount,
            asset=self.plan.asset,
            agent_is_active=self.plan.paused_at is None or request.at < self.plan.paused_at,
            agent_asset=self.plan.asset,
            balance=self.balance,
            max_per_payment=revision.max_per_payment,
            daily_limit=revision.daily_limit,
            weekly_limit=revision.weekly_limit,
            spent_today=self.windows.day.total,
            spent_this_week=self.windows.week.total,
            allowed_services=None,
            payee=PayeeFacts(payee.id, payee.is_approved(request.at), payee.asset),
            minimum=None,
        )

    def _seal(self, request: Request, facts: Facts, decision: Decision) -> Entry:
        known = Known(self._explain(request, facts, decision), self.spent_total, self.last.hash if self.last else "")
        return seal_entry(self.plan.id, request, facts, decision, known=known, signer=self._signer)

    def _explain(self, request: Request, facts: Facts, decision: Decision) -> dict[str, Any]:
        if decision.is_approved:
            return explain_approval(decision, facts, f"{request.payee.chain}:{request.payee.address}")
        return explain_refusal(decision, lambda window, headroom: self.windows.fits_at(window, headroom, request.at))

    def _give_back(self, now: datetime) -> Iterator[Moved]:
        while self._returns and self._returns[0][0] <= now:
            at, _, decided, spend = heapq.heappop(self._returns)
            self.windows.give_back(spend, at)
            yield self._move(at, decided.amount, decided)

    def _move(self, at: datetime, amount: Decimal, payment: Decided | None) -> Moved:
        self.balance += amount
        return Moved(self.plan.id, self.plan.asset, at, amount, self.balance, payment)

    @staticmethod
    def _round_up(amount: Decimal) -> Decimal:
        return (amount / 50).quantize(Decimal(1)) * 50 + 50


def _apart(moments: list[datetime], until: datetime) -> list[datetime]:
    """Let no two moments be the same, at the contract's precision, and all lie before the end."""
    later = until
    apart = []
    for moment in reversed(moments):
        later = min(to_milliseconds(moment), later - _MILLISECOND * 2)
        apart.append(later)
    apart.reverse()
    return apart
