"""Random histories of one agent, checked at each step against a model that remembers all and sums by brute force.

On a chain of either kind: with nonces fees are raised and gaps filled, without them what expired is signed again.
"""

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as Settings  # noqa: N812 - pytest-django's is meant by `settings`
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from allowance.kernel.errors import ContractError, IdempotencyConflict
from ledger.models import LogEntry
from payments import relayers, renewal
from payments.expiry import MARGIN
from payments.history import search_history
from payments.lifecycle import OPEN_STATES, SettlementState
from payments.models import Payment, Settlement
from payments.operations import Approval, request_payment
from payments.requests import PaymentRequest
from payments.settlement import broadcast, confirm
from policy.models import Agent
from policy.operations import Limits, pause_agent, resume_agent, set_policy
from services.models import Service
from services.operations import disable_service
from tests.chains import VALIDITY, VALIDITY_BLOCKS, environment_of, make_fake_chain, make_request, make_service_on
from tests.factories import make_agent
from tests.invariants import DAY, WEEK, check_agent, check_nonces

START = datetime(2026, 3, 29, 0, 0, 0, tzinfo=UTC)
AMOUNTS = st.sampled_from([Decimal(text) for text in ("0.01", "1.00", "2.50", "4.99", "5", "9.999999", "10.00", "12")])
LIMITS = st.sampled_from([Decimal(text) for text in ("0", "4.99", "5", "10", "10.01", "25", "60")])
STEPS = st.sampled_from(
    [
        timedelta(0),
        timedelta(milliseconds=1),
        timedelta(minutes=3),
        timedelta(hours=7),
        DAY - timedelta(milliseconds=1),
        DAY,
        DAY + timedelta(milliseconds=1),
        timedelta(days=3),
        WEEK - timedelta(milliseconds=1),
        WEEK,
        -timedelta(milliseconds=1),
        -timedelta(hours=3),
        -timedelta(days=2),
    ]
)


@dataclass
class Bought:
    """An approved payment as the model remembers it, with the limits that were in force for it."""

    at: datetime
    amount: Decimal
    limits: Limits
    payment_id: str
    has_failed: bool = False
    is_over: bool = False
    is_in_block: bool = False


@dataclass
class Decided:
    request: PaymentRequest
    rule: str
    entry_id: str


class History(RuleBasedStateMachine):
    """One agent, one service, one chain; the clock is the test's.

    `gave_way`: how a transaction ends if another one of its payment came after it.
    """

    has_nonces: bool
    gave_way: SettlementState

    @initialize(daily=LIMITS, weekly=LIMITS, balance=st.sampled_from(["8", "30", "500"]))
    def begin(self, daily: Decimal, weekly: Decimal, balance: str) -> None:
        self.chain = make_fake_chain(relayers=2, has_nonces=self.has_nonces)
        self.service = make_service_on(self.chain)
        self.agent = make_agent(max_per_payment="10", daily_limit=str(daily), weekly_limit=str(weekly), balance=balance)
        self.balance = Decimal(balance)
        self.limits = Limits(Decimal(10), daily, weekly)
        self.now = START
        self.last_at = START - timedelta(days=365)
        self.is_paused = False
        self.is_disabled = False
        self.bought: list[Bought] = []
        self.decided: list[Decided] = []

    # --- What can happen ----------------------------------------------------------------------------------------------
    @rule(amount=AMOUNTS)
    def pay(self, amount: Decimal) -> None:
        at = max(self.now, self.last_at)
        expected = self._judge(amount, at)
        self.last_at = at

        request = make_request(self.agent, self.service, str(amount))
        decided = self._ask(request)

        entry = LogEntry.objects.get(agent=self.agent, idempotency_key=request.idempotency_key)
        assert (entry.result, entry.rule) == (
            ("approved", "under_max_payment") if expected is None else ("blocked", expected)
        )
        assert entry.created_at == at
        assert isinstance(decided, Approval) == (expected is None)
        self.decided.append(Decided(request, entry.rule, entry.id))
        if expected is None:
            assert entry.payment_id is not None
            self.balance -= amount
            self.bought.append(Bought(at, amount, self.limits, entry.payment_id))

    @precondition(lambda self: self.decided)
    @rule(data=st.data())
    def ask_again(self, data: st.DataObject) -> None:
        earlier = data.draw(st.sampled_from(self.decided))
        count = LogEntry.objects.filter(agent=self.agent).count()

        again = self._ask(earlier.request)

        if isinstance(again, Approval):
            assert again.is_replay
            assert again.entry.id == earlier.entry_id
        else:
            assert again.replayed
            assert again.details["logId"] == earlier.entry_id
            assert again.details["rule"] == earlier.rule
        assert LogEntry.objects.filter(agent=self.agent).count() == count

    @precondition(lambda self: self.decided)
    @rule(data=st.data())
    def ask_for_something_else_with_an_old_key(self, data: st.DataObject) -> None:
        earlier = data.draw(st.sampled_from(self.decided))
        other = make_request(self.agent, self.service, "0.07", earlier.request.idempotency_key)
        count = LogEntry.objects.filter(agent=self.agent).count()

        assert isinstance(self._ask(other), IdempotencyConflict)

        assert LogEntry.objects.filter(agent=self.agent).count() == count

    @rule(step=STEPS)
    def let_time_pass(self, step: timedelta) -> None:
        self.now += step

    @rule(daily=LIMITS, weekly=LIMITS)
    def change_policy(self, daily: Decimal, weekly: Decimal) -> None:
        self.limits = Limits(Decimal(10), daily, weekly)
        set_policy(self.agent.id, change=lambda _: self.limits, by="test")

    @rule()
    def pause_or_resume(self) -> None:
        (resume_agent if self.is_paused else pause_agent)(self.agent.id)
        self.is_paused = not self.is_paused

    @rule()
    def disable_or_approve_the_service(self) -> None:
        if self.is_disabled:  # a fake chain is not one that staff could approve
            Service.objects.filter(pk=self.service.pk).update(status="approved")
        else:
            disable_service(self.service.id, by="test")
        self.is_disabled = not self.is_disabled

    @precondition(lambda self: self._open())
    @rule(data=st.data(), does_pay=st.booleans(), is_final=st.booleans())
    def let_a_payment_land(self, data: st.DataObject, does_pay: bool, is_final: bool) -> None:
        """With everything that is before it in its line; any of the transactions that it had may be the one."""
        one = data.draw(st.sampled_from(self._open()))
        if not one.is_in_block:
            row = data.draw(st.sampled_from(self._may_land(one)))
            self._land_what_is_before(row)
            self.chain.include(row, is_final=False, failure=None if does_pay else "Reverted.")
            one.is_in_block = True
        self._follow()
        if is_final:
            self._finalise()

    @precondition(lambda self: any(one.is_in_block for one in self._open()))
    @rule()
    def reorganise(self) -> None:
        for tx, inclusion in list(self.chain.blocks.items()):
            if inclusion.block_number > self.chain.finality.block_number:
                self.chain.vanish(self.chain.landed[tx])
        self._follow()
        for one in self._open():
            one.is_in_block = False

    @rule()
    def heal(self) -> None:
        relayers.tend_relayers(self.chain.name, self.chain, {})

    # --- What must always hold ----------------------------------------------------------------------------------------
    @invariant()
    def all_that_must_hold_for_an_agent_holds(self) -> None:
        check_agent(self.agent.id)
        check_nonces(self.chain.name)

    @invariant()
    def database_and_model_agree(self) -> None:
        assert Agent.objects.get(pk=self.agent.pk).balance == self.balance >= 0
        failed = Payment.objects.filter(agent=self.agent, status="failed")
        assert {one.payment_id for one in self.bought if one.has_failed} == {payment.pk for payment in failed}

    @invariant()
    def no_window_ever_exceeded_the_limit_that_was_in_force(self) -> None:
        for index, one in enumerate(self.bought):
            for window, limit in ((DAY, one.limits.daily_limit), (WEEK, one.limits.weekly_limit)):
                assert self._spent(one.at - window, self.bought[: index + 1]) <= limit

    # --- The model ----------------------------------------------------------------------------------------------------
    def _judge(self, amount: Decimal, at: datetime) -> str | None:
        """Tell the rule that must block, None if none must."""
        checks = {
            "agent_active": not self.is_paused,
            "service_approved": not self.is_disabled,
            "balance_covers_payment": amount <= self.balance,
            "under_weekly_limit": self._spent(at - WEEK, self.bought) + amount <= self.limits.weekly_limit,
            "under_daily_limit": self._spent(at - DAY, self.bought) + amount <= self.limits.daily_limit,
            "under_max_payment": amount <= self.limits.max_per_payment,
        }
        return next((name for name, holds in checks.items() if not holds), None)

    @staticmethod
    def _spent(since: datetime, bought: list[Bought]) -> Decimal:
        return sum((one.amount for one in bought if one.at > since and not one.has_failed), Decimal(0))

    def _open(self) -> list[Bought]:
        return [one for one in self.bought if not one.is_over]

    def _ask(self, request: PaymentRequest) -> Approval | ContractError:
        try:
            return request_payment(request, environment_of(self.chain, self.now))
        except ContractError as error:
            return error

    def _follow(self) -> None:
        broadcast(self.chain.name, self.chain)
        search_history(self.chain.name, self.chain)
        confirm(self.chain.name, self.chain)
        confirm(self.chain.name, self.chain)

    def _may_land(self, one: Bought) -> list[Settlement]:
        """Find the transactions of a payment that a chain may take."""
        return list(Settlement.objects.filter(payment=one.payment_id, state__in=OPEN_STATES))

    def _land_what_is_before(self, row: Settlement) -> None:
        """Let all land that a transaction has to wait for."""

    def _finalise(self) -> None:
        self.chain.finalise(self.chain.finality.block_number + 1)
        self._follow()
        self._end_what_is_final()

    def _end_what_is_final(self) -> None:
        for one in self._open():
            if one.is_in_block:
                landed = Settlement.objects.get(payment=one.payment_id, tx__in=self.chain.blocks)
                self._end(one, has_failed=self.chain.blocks[landed.tx].failure is not None)

    def _end(self, one: Bought, *, has_failed: bool) -> None:
        one.is_over, one.has_failed = True, has_failed
        if has_failed:
            self.balance += one.amount
        states = Settlement.objects.filter(payment=one.payment_id).values_list("state", flat=True)
        (end,) = [state for state in states if state != self.gave_way] or [self.gave_way]
        ends = {SettlementState.FAILED, SettlementState.EXPIRED} if has_failed else {SettlementState.FINAL}
        assert end in ends


class HistoryWithNonces(History):
    """Deadlines are by time, fees are raised, and a payment waits for those that are before it in its line."""

    has_nonces = True
    gave_way = SettlementState.REPLACED

    @rule()
    def raise_fees(self) -> None:
        waiting = Settlement.objects.filter(chain=self.chain.name, state=SettlementState.BROADCAST)
        for row in waiting.select_related("relayer"):
            assert relayers._replace(row, self.chain, {}) == 1

    @precondition(lambda self: self._open())
    @rule(data=st.data())
    def let_payments_expire(self, data: st.DataObject) -> None:
        # Validity is in whole milliseconds here: what is older than this one has expired, this one has not.
        newest = data.draw(st.sampled_from(self._open()))
        self.chain.reach(newest.at + VALIDITY)
        self._follow()
        for one in self._open():
            if one.at < newest.at and not one.is_in_block:
                self._end(one, has_failed=True)

    def _may_land(self, one: Bought) -> list[Settlement]:
        rows = Settlement.objects.filter(payment=one.payment_id).exclude(state=SettlementState.INCLUDED)
        return list(rows.order_by("created_at"))

    def _land_what_is_before(self, row: Settlement) -> None:
        """Let all that is before a transaction in its line land and do what it was made for, fillers of gaps too."""
        relayers.tend_relayers(self.chain.name, self.chain, {})
        before = Settlement.objects.filter(relayer=row.relayer, nonce__lt=row.nonce, state__in=OPEN_STATES)
        for earlier in before.order_by("nonce"):
            if earlier.tx not in self.chain.blocks:
                self.chain.include(earlier, is_final=False)
        for one in self._open():
            one.is_in_block = one.is_in_block or before.filter(payment=one.payment_id).exists()


class HistoryWithoutNonces(History):
    """Deadlines are by height; what expired is signed again, or given back if nobody waits for it any more."""

    has_nonces = False
    gave_way = SettlementState.EXPIRED

    @precondition(lambda self: self._open())
    @rule(data=st.data(), is_worth_renewing=st.booleans())
    def let_payments_expire(self, data: st.DataObject, is_worth_renewing: bool) -> None:
        last = self._last_height(data.draw(st.sampled_from(self._open())))
        expired = [one for one in self._open() if not one.is_in_block and self._last_height(one) <= last]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(renewal, "WORTH_RENEWING", timedelta.max if is_worth_renewing else timedelta.min)
            self.chain.finalise(last + MARGIN)
            self._follow()
        self._end_what_is_final()
        for one in expired:
            if is_worth_renewing:
                assert self._last_height(one) == last + MARGIN + VALIDITY_BLOCKS
            else:
                self._end(one, has_failed=True)

    @staticmethod
    def _last_height(one: Bought) -> int:
        live = Settlement.objects.get(payment=one.payment_id, state__in=OPEN_STATES)
        return live.valid_until_height or 0


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("history", [HistoryWithNonces, HistoryWithoutNonces])
def test_no_history_overspends_loses_or_repeats_anything(settings, history):
    settings.RELAYERS_PER_CHAIN = 2
    run_state_machine_as_test(
        history,
        settings=Settings(
            max_examples=20,
            stateful_step_count=40,
            deadline=None,
            derandomize="CI" in os.environ,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
