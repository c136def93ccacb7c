"""Judge what an agent asked for in the past by other limits: the history goes in, decisions come out.

The judges are the rules of `policy.rules`; the facts are those of the past wherever the limits do not change them:

- Everything before the first judged decision counts as it was, as if the limits had come into force at that moment.
- A window holds what the other limits would have approved until then. A payment that was given back leaves it when
  that was booked, as of the moment it was spent; what only the other limits approve is taken to have succeeded.
- What an earlier rule refused stays refused. The exception is a service that the policy did not allow: it is judged
  with its payee as it is now, and with the balance as it was.
- A payee has the tags that it has now.
- A payee counts as approved since it was last approved, or since ever, if that was after the decision.
- The balance is not simulated: what would have been spent more or less does not change what it covered later.
- What a person would have had to approve is taken to have been approved: nobody knows what they would have said. What
  nobody approved then stays refused, unless the other limits would not have asked.
- What could not be signed stays refused unless the other limits refuse it before.
- What agents below paid while they were below is judged as the agent's own, but for the balance, which is theirs. It
  was approved: what they were refused is not in the history. What an agent above refused stays refused, and who was
  asked because of another agent's policy would be asked again: the limits of others are as they were.
- A clock repair counts as in `sql/windows.sql`: what was in the future then stays in every window until its head left.
  What agents below had paid by then counts as of the repair, as in `sql/levels.sql`.

What is booked by hand, or given back, is ordered among the decisions by its time: a process whose clock differs from
the database's can err by that difference.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from foundation.kernel.money import EXACT
from ledger.past import GivenBack, History, Move, Past, Payee, Spend, Window, Windows, lengths_of_windows, limits_payees
from policy.asking import find_refusing
from policy.facts import NOTHING_COUNTED, Counted, Facts, PayeeFacts, make_facts
from policy.holding_rules import PERSON_RULE
from policy.limits import Limits
from policy.more_limits import NO_MORE
from policy.more_objections import HOUR, MONTH
from policy.objections import DAY, WEEK
from policy.rules import RULES, SERVICE_RULE, SIGNER_RULE, rules_for_approved, rules_in_force

# What these refused is judged again: what they let pass, the others let pass in the past. What any other rule refused
# stays refused, one that only another release knows among them.
_ASKED_AGAIN = {SIGNER_RULE.name, PERSON_RULE.name, *(rule.name for rule in RULES if rule.varies)} - {SERVICE_RULE.name}
_EMPTY = Window()


class Judged(NamedTuple):
    """A decision of the past, and how the other limits would have decided, by the rule of this name.

    `held_by`: the rule by which a person would have had to approve it; None: none.
    """

    past: Past
    is_approved: bool
    rule: str
    held_by: str | None = None


def replay(history: History, limits: Limits) -> Iterator[Judged]:
    """Judge the decisions of a history that are to be judged, in order, by other limits."""
    return _Replay(history, limits).run()


class _Replay:
    def __init__(self, history: History, limits: Limits) -> None:
        self._history, self._limits = history, limits
        self._rules = rules_for_approved(limits.more)
        self._holding = tuple(rule for rule in rules_in_force(limits.more) if rule.holds)
        # Those that can object to what all rules before the limits let pass in the past.
        self._varied = tuple(rule for rule in self._rules if rule.varies)
        self._repairs = {repair.number: repair for repair in history.repairs}
        self._balance, self._spent = history.balance, history.spent
        self._paid: Counter[str | None] = Counter(history.paid)
        self._has_more = limits.more is not NO_MORE
        self._limits_payees = limits_payees(limits.more)
        self._spends: list[Spend] = []
        self._not_paid: set[str | None] = set()  # payments of the past that the other limits refuse
        self._empty_windows()

    def _empty_windows(self) -> None:
        self._windows = Windows(lengths_of_windows(self._limits.more))
        self._of_payee: defaultdict[str | None, Windows] = defaultdict(lambda: Windows((DAY, WEEK)))

    def run(self) -> Iterator[Judged]:
        moves = list(reversed(self._history.moves))
        number = 0
        for past in self._history.decisions:
            if past.repairs != number:
                number = past.repairs
                self._go_back()
            while moves and moves[-1].at <= self._really_at(past):
                self._move(moves.pop())
            is_approved = past.is_approved
            if past.is_judged:
                judged = self._judge(past)
                is_approved = judged.is_approved
                yield judged
            if is_approved:
                self._spend(past)
            elif past.is_approved:
                self._not_paid.add(past.payment_id)
            if past.is_approved and past.payer is None:
                self._balance = EXACT.subtract(self._balance, past.amount)

    def _judge(self, past: Past) -> Judged:
        if not past.is_approved and (past.is_of_others or not (past.rule in _ASKED_AGAIN or past.is_off_list)):
            return Judged(past, is_approved=False, rule=past.rule)
        facts = self._facts(past)
        rule = find_refusing(facts, self._rules if past.is_off_list else self._varied)
        if rule is None and past.rule == SIGNER_RULE.name:
            rule = SIGNER_RULE
        holding = find_refusing(facts, self._holding) if rule is None and self._holding else None
        if holding is not None and past.rule == PERSON_RULE.name:
            return Judged(past, is_approved=False, rule=past.rule)
        return Judged(past, rule is None, (rule or self._rules[-1]).name, None if holding is None else holding.name)

    def _facts(self, past: Past) -> Facts:
        """Restore the facts of a decision; what an earlier rule let pass in the past, it lets pass again."""
        payee = self._history.payees.get(past.service)
        judged_as = payee if past.is_off_list else None
        asset = judged_as.asset if judged_as else past.asset
        held = self._windows.at(past.at)
        return make_facts(
            amount=past.amount,
            asset=past.asset,
            agent_is_active=True,
            agent_asset=self._history.asset,
            balance=self._balance if past.is_off_list else past.amount,
            limits=self._limits,
            spent_today=held[DAY].amount,
            spent_this_week=held[WEEK].amount,
            payee=PayeeFacts(
                past.service,
                is_approved=True,
                asset=asset,
                approved_at=_approved_at(payee, past),
                tags=payee.tags if payee else (),
            ),
            minimum=judged_as.minimum if judged_as else None,
            counted=self._count(past, held) if self._has_more else NOTHING_COUNTED,
            at=past.at,
        )

    def _count(self, past: Past, held: Mapping[timedelta, Window]) -> Counted:
        hour = held.get(HOUR, _EMPTY)
        to_payee = self._of_payee[past.service].at(past.at) if self._limits_payees else {}
        return Counted(
            spent_this_hour=hour.amount,
            spent_this_month=held.get(MONTH, _EMPTY).amount,
            spent_ever=self._spent,
            payments_this_hour=hour.payments,
            payments_today=held[DAY].payments,
            payee_spent_today=to_payee.get(DAY, _EMPTY).amount,
            payee_spent_this_week=to_payee.get(WEEK, _EMPTY).amount,
            payee_payments=self._paid[past.service],
        )

    def _move(self, move: Move) -> None:
        if not move.is_below:
            self._balance = EXACT.add(self._balance, move.amount)
        if move.spent_at is not None and move.payment_id not in self._not_paid:
            self._spend(GivenBack(move.spent_at, -move.amount, move.payee))

    def _spend(self, spend: Spend) -> None:
        self._spends.append(spend)
        self._hold(spend)
        if self._has_more:
            self._spent = EXACT.add(self._spent, spend.amount)
            self._paid[spend.service] += spend.payments

    def _hold(self, spend: Spend) -> None:
        self._windows.add(spend)
        if self._limits_payees:
            self._of_payee[spend.service].add(spend)

    def _really_at(self, past: Past) -> datetime:
        """Tell when a decision was made at the latest: before the repair, if that found it in the future."""
        ended = self._repairs.get(past.repairs + 1)
        return past.at if ended is None else min(past.at, ended.repaired_at)

    def _go_back(self) -> None:
        """Fill the windows anew after a clock repair: time has gone back, and the future counts until its end."""
        self._empty_windows()
        for spend in self._spends:
            ended = None if spend.repairs is None else self._repairs.get(spend.repairs + 1)
            is_ahead = ended is not None and spend.at > ended.repaired_at
            self._hold(spend._replace(at=ended.head_at) if ended is not None and is_ahead else spend)


def _approved_at(payee: Payee | None, past: Past) -> datetime | None:
    """Tell since when a payee was approved; None: it is not known, since the approval of now came later."""
    approved_at = None if payee is None else payee.approved_at
    return None if approved_at is None or approved_at > past.at else approved_at
