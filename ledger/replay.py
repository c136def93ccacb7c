"""Judge what an agent asked for in the past by other limits: the history goes in, decisions come out.

The judge is `policy.rules.ask_rules`; the facts are those of the past wherever the limits do not change them:

- Everything before the first judged decision counts as it was, as if the limits had come into force at that moment.
- A window holds what the other limits would have approved until then. A payment that was given back leaves it when
  that was booked, as of the moment it was spent; what only the other limits approve is taken to have succeeded.
- What an earlier rule refused stays refused. The exception is a service that the policy did not allow: it is judged
  with its payee as it is now, and with the balance as it was.
- The balance is not simulated: what would have been spent more or less does not change what it covered later.
- What could not be signed stays refused unless the other limits refuse it before.
- A clock repair counts as in `sql/windows.sql`: what was in the future then stays in every window until its head left.

What is booked by hand, or given back, is ordered among the decisions by its time: a process whose clock differs from
the database's can err by that difference.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from functools import reduce
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from foundation.kernel.money import EXACT
from ledger.past import History, Move, Past
from policy.facts import Facts, PayeeFacts, make_facts
from policy.objections import DAY, WEEK
from policy.operations import Limits
from policy.rules import RULES, SERVICE_RULE, SIGNER_RULE, ask_rules

# What these refused is judged again: what they let pass, the others let pass in the past. What any other rule refused
# stays refused, one that only another release knows among them.
_ASKED_AGAIN = {SIGNER_RULE.name, *(rule.name for rule in RULES if rule.varies)} - {SERVICE_RULE.name}
# The rules that can object to what all rules before the limits let pass in the past.
_VARIED = tuple(rule for rule in RULES if rule.varies)


class Judged(NamedTuple):
    """A decision of the past, and how the other limits would have decided, by the rule of this name."""

    past: Past
    is_approved: bool
    rule: str


def replay(history: History, limits: Limits) -> Iterator[Judged]:
    """Judge the decisions of a history that are to be judged, in order, by other limits."""
    return _Replay(history, limits).run()


class _Window:
    """What was spent in the rolling window that ends with the decision at hand: `(now - length, now]`."""

    def __init__(self, length: timedelta) -> None:
        self._length = length
        self.fill([])

    def fill(self, spends: list[tuple[datetime, Decimal]]) -> None:
        self._spends = spends
        self._sum = reduce(EXACT.add, (amount for _, amount in spends), Decimal(0))
        heapify(self._spends)

    def add(self, at: datetime, amount: Decimal) -> None:
        heappush(self._spends, (at, amount))
        self._sum = EXACT.add(self._sum, amount)

    def spent(self, now: datetime) -> Decimal:
        since, spends = now - self._length, self._spends
        while spends and spends[0][0] <= since:
            self._sum = EXACT.subtract(self._sum, heappop(spends)[1])
        return self._sum


class _Replay:
    def __init__(self, history: History, limits: Limits) -> None:
        self._history = history
        self._limits = limits
        self._day, self._week = _Window(DAY), _Window(WEEK)
        self._balance = history.balance
        self._spends: list[tuple[datetime, Decimal, int]] = []  # with the repairs before them
        self._not_paid: set[str | None] = set()  # payments of the past that the other limits refuse
        self._repairs = {repair.number: repair for repair in history.repairs}

    def run(self) -> Iterator[Judged]:
        moves = list(reversed(self._history.moves))
        number = 0
        for past in self._history.decisions:
            if past.repairs != number:
                number = past.repairs
                self._go_back()
            booked_by = self._really_at(past)
            while moves and moves[-1].at <= booked_by:
                self._move(moves.pop())
            is_approved = past.is_approved
            if past.is_judged:
                judged = self._judge(past)
                is_approved = judged.is_approved
                yield judged
            if is_approved:
                self._spend(past.at, past.amount, number)
            elif past.is_approved:
                self._not_paid.add(past.payment_id)
            if past.is_approved:
                self._balance = EXACT.subtract(self._balance, past.amount)

    def _judge(self, past: Past) -> Judged:
        if not past.is_approved and past.rule not in _ASKED_AGAIN and not past.is_off_list:
            return Judged(past, is_approved=False, rule=past.rule)
        decision = ask_rules(self._facts(past), RULES if past.is_off_list else _VARIED)
        if decision.is_approved and past.rule == SIGNER_RULE.name:
            return Judged(past, is_approved=False, rule=SIGNER_RULE.name)
        return Judged(past, decision.is_approved, decision.rule.name)

    def _facts(self, past: Past) -> Facts:
        """Restore the facts of a decision; what an earlier rule let pass in the past, it lets pass again."""
        payee = self._history.payees.get(past.service) if past.is_off_list else None
        return make_facts(
            amount=past.amount,
            asset=past.asset,
            agent_is_active=True,
            agent_asset=self._history.asset,
            balance=self._balance if past.is_off_list else past.amount,
            limits=self._limits,
            spent_today=self._day.spent(past.at),
            spent_this_week=self._week.spent(past.at),
            payee=PayeeFacts(past.service, is_approved=True, asset=payee.asset if payee else past.asset),
            minimum=payee.minimum if payee else None,
        )

    def _move(self, move: Move) -> None:
        self._balance = EXACT.add(self._balance, move.amount)
        if move.spent_at is not None and move.payment_id not in self._not_paid:
            self._spend(move.spent_at, -move.amount, None)

    def _spend(self, at: datetime, amount: Decimal, repairs: int | None) -> None:
        # What was given back has no effective moment but its own, whatever was repaired: as in sql/windows.sql.
        self._spends.append((at, amount, -1 if repairs is None else repairs))
        self._day.add(at, amount)
        self._week.add(at, amount)

    def _really_at(self, past: Past) -> datetime:
        """Tell when a decision was made at the latest: before the repair, if that found it in the future."""
        ended = self._repairs.get(past.repairs + 1)
        return past.at if ended is None else min(past.at, ended.repaired_at)

    def _go_back(self) -> None:
        """Fill the windows anew after a clock repair: time has gone back, and the future counts until its end."""
        spends = []
        for at, amount, repairs in self._spends:
            ended = self._repairs.get(repairs + 1) if repairs >= 0 else None
            is_ahead = ended is not None and at > ended.repaired_at
            spends.append((ended.head_at if ended is not None and is_ahead else at, amount))
        self._day.fill(list(spends))
        self._week.fill(list(spends))
