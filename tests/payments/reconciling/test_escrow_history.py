"""Random histories of one agent, checked at each step against a model that remembers all and sums by brute force.

On a chain of either kind: with nonces fees are raised, gaps filled and lost payments voided; on both, what expired is
signed again, a thief submits payments of ours as transactions that nobody knows, and takes out what is none of ours.
"""

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

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

from allowance.kernel.errors import ContractError, IdempotencyConflict, PolicySignerUnavailable
from allowance.kernel.times import LARGEST_SKEW
from ledger.models import LogEntry
from payments.deciding.operations import Approval, request_payment
from payments.deciding.requests import PaymentRequest
from payments.lifecycle import OPEN_STATES, SettlementState
from payments.models import ChainState, DepositCursor, Outflow, Payment, Settlement
from payments.reconciling.escrow_history import search_history
from payments.settling import relayers, renewal, stuck_transactions
from payments.settling.broadcasting import broadcast
from payments.settling.chain_switch import start_signing_on
from payments.settling.confirming import confirm
from payments.settling.expiry import HEIGHT_MARGIN
from payments.settling.unpaid import resolve_unpaid
from policy.models import Agent
from policy.operations import Limits, pause_agent, resume_agent, set_policy
from services.models import Service
from services.operations import disable_service
from tests.support.chains import environment_of, make_fake_chain, make_request, make_service_on, outflow_of
from tests.support.factories import make_agent, new_name, seen_by
from tests.support.invariants import DAY, WEEK, check_agent, check_nonces

pytestmark = pytest.mark.long(55)

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


# How transactions end that have not paid.
GAVE_WAY = {SettlementState.FAILED, SettlementState.EXPIRED, SettlementState.REPLACED}


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
    is_lost: bool = False


@dataclass
class Decided:
    request: PaymentRequest
    rule: str
    entry_id: str


class History(RuleBasedStateMachine):
    """One agent, one service, one chain; the clock is the test's.

    What has expired is signed again while the test says so, whatever the time; it is given back otherwise.
    """

    has_nonces: bool

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
        self.stolen: list[str] = []
        self.is_stopped = False

    # --- What can happen ----------------------------------------------------------------------------------------------
    @rule(amount=AMOUNTS)
    def pay(self, amount: Decimal) -> None:
        at = max(self.now, self.last_at)
        if at - self.now > LARGEST_SKEW:
            # The clock stepped back: until it is there again, nothing is decided.
            count = LogEntry.objects.filter(agent=self.agent).count()
            assert isinstance(self._ask(make_request(self.agent, self.service, str(amount))), PolicySignerUnavailable)
            assert LogEntry.objects.filter(agent=self.agent).count() == count
            return
        expected = self._judge(amount, at)
        self.last_at = at

        request = make_request(self.agent, self.service, str(amount))
        decided = self._ask(request)

        if expected is None and self.is_stopped:
            self._see_that_nothing_was_signed(request, decided)
            return
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

    @precondition(lambda self: self._may_be_paid())
    @rule(data=st.data(), does_pay=st.booleans(), is_final=st.booleans())
    def let_a_payment_land(self, data: st.DataObject, does_pay: bool, is_final: bool) -> None:
        """With everything that is before it in its line; any of the transactions that it had may be the one."""
        one = data.draw(st.sampled_from(self._may_be_paid()))
        if not one.is_lost:
            row = data.draw(st.sampled_from(self._may_land(one)))
            self._land_what_is_before(row)
            self.chain.include(row, is_final=False, failure=None if does_pay else "Reverted.")
            one.is_in_block = True
        self._follow()
        if is_final:
            self._advance()

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
        relayers.refresh_relayers(self.chain.name, self.chain, {})

    @precondition(lambda self: self._may_be_paid())
    @rule(data=st.data())
    def let_a_thief_submit_a_payment(self, data: st.DataObject) -> None:
        """Whoever has a relayer's key, and no other, can: what was approved, once, under an id that nobody knows."""
        one = data.draw(st.sampled_from(self._may_be_paid()))
        payment = Payment.objects.get(pk=one.payment_id)
        self.chain.paid.add(payment.escrow_id)

        tx = self._take_out(payment, recipient=payment.recipient if self.has_nonces else "")

        assert one.is_over
        assert Settlement.objects.get(pk=tx).state == SettlementState.FINAL

    @precondition(lambda self: self.bought and not self.is_stopped)
    @rule(data=st.data(), is_named=st.booleans())
    def let_money_leave_that_nobody_approved(self, data: st.DataObject, is_named: bool) -> None:
        """With both keys, or the owner's: signing stops, and nothing that was approved is taken for paid."""
        payment = Payment.objects.get(pk=data.draw(st.sampled_from(self.bought)).payment_id)
        named = payment.escrow_id if is_named else "of nobody"
        self.is_stopped = True
        self.stolen.append(self._take_out(payment, escrow_id=named, amount=payment.amount + 1))

    @precondition(lambda self: self.is_stopped)
    @rule()
    def start_signing_again(self) -> None:
        start_signing_on(self.chain.name)
        self.is_stopped = False
        self._follow()

    @precondition(lambda self: self.bought)
    @rule()
    def search_all_once_more(self) -> None:
        """As after a backup was restored: what is known is not found again, nor does it stop anything again."""
        DepositCursor.objects.filter(chain=self.chain.name).update(block_number=0)
        self._follow()

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
    def all_that_left_is_known_and_stops_signing(self) -> None:
        found = Outflow.objects.filter(chain=self.chain.name)
        assert sorted(found.values_list("tx", flat=True)) == sorted(self.stolen)
        assert bool(ChainState.objects.get(pk=self.chain.name).stopped_reason) == self.is_stopped

    @invariant()
    def no_payment_is_paid_twice_or_both_paid_and_given_back(self) -> None:
        for payment in Payment.objects.filter(agent=self.agent):
            is_paid = payment.escrow_id in self.chain.paid
            assert not (is_paid and payment.status == "failed"), payment
            assert not (is_paid and payment.escrow_id in self.chain.voided), payment

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
            with seen_by(self.now, self.chain.name):
                return request_payment(request, environment_of(self.chain, self.now))
        except ContractError as error:
            return error

    def _see_that_nothing_was_signed(self, request: PaymentRequest, decided: Approval | ContractError) -> None:
        assert isinstance(decided, PolicySignerUnavailable)
        assert not LogEntry.objects.filter(agent=self.agent, idempotency_key=request.idempotency_key).exists()
        newest = LogEntry.objects.filter(agent=self.agent).latest("id")
        assert (newest.result, newest.rule, newest.payment_id) == ("blocked", "policy_signer_available", None)

    def _take_out(self, payment: Payment, **changes: Any) -> str:
        """Let something leave the escrow in the next block, together with what is in blocks that are not final yet."""
        number = self.chain.finality.block_number + 1
        found = outflow_of(payment, new_name("tx"), number, **changes)
        self.chain.outflows.append(found)
        self._advance()
        return found.tx

    def _follow(self, *, is_worth_renewing: bool = False) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(renewal, "WORTH_RENEWING", timedelta.max if is_worth_renewing else timedelta.min)
            broadcast(self.chain.name, self.chain)
            search_history(self.chain.name, self.chain)
            confirm(self.chain.name, self.chain)
            confirm(self.chain.name, self.chain)
            resolve_unpaid(self.chain.name, self.chain)

    def _advance(self, number: int = 0, moment: datetime | None = None, *, is_worth_renewing: bool = False) -> None:
        """Let blocks be final, at least one more, and time go on; then see what became of each payment."""
        ends = {one.payment_id: self._end_of(one) for one in self._open()}
        self.chain.finalise(max(number, self.chain.finality.block_number + 1))
        if moment is not None:
            self.chain.reach(max(moment, self.chain.finality.time))
        self._follow(is_worth_renewing=is_worth_renewing)
        if is_worth_renewing and self.is_stopped:
            self._follow()  # it could not be signed; then nobody waits for it any more
            is_worth_renewing = False
        for one in self._open():
            self._look_at(one, ends[one.payment_id], is_worth_renewing=is_worth_renewing)

    def _look_at(self, one: Bought, end: Any, *, is_worth_renewing: bool) -> None:
        """See what became of a payment, by what the chain has done."""
        payment = Payment.objects.get(pk=one.payment_id)
        if payment.escrow_id in self.chain.paid:
            self._end(one, has_failed=False)
        elif payment.escrow_id in self.chain.voided:
            self._end(one, has_failed=True)
        else:
            # What is in a final block and has not paid has failed.
            one.is_lost, one.is_in_block = one.is_lost or one.is_in_block, False
            if self._is_past(end):
                if one.is_lost or not is_worth_renewing:
                    self._end(one, has_failed=True)
                else:
                    assert not self._is_past(self._end_of(one))
                    live = Settlement.objects.filter(payment=payment, is_void=False, state__in=OPEN_STATES)
                    assert live.count() == 1

    def _end(self, one: Bought, *, has_failed: bool) -> None:
        one.is_over, one.has_failed, one.is_in_block = True, has_failed, False
        if has_failed:
            self.balance += one.amount
        assert Payment.objects.get(pk=one.payment_id).status == ("failed" if has_failed else "settled")
        rows = Settlement.objects.filter(payment=one.payment_id, is_void=False)
        states = list(rows.values_list("state", flat=True))
        assert states.count(SettlementState.FINAL) == (not has_failed)
        assert set(states) <= {SettlementState.FINAL, *GAVE_WAY}

    def _may_be_paid(self) -> list[Bought]:
        """Find what no block has paid or voided so far, final or not."""
        done = {str(self.chain.landed[tx].payment_id) for tx, seen in self.chain.blocks.items() if seen.failure is None}
        return [one for one in self._open() if not one.is_in_block and one.payment_id not in done]

    def _may_land(self, one: Bought) -> list[Settlement]:
        """Find the transactions of a payment that a chain may take: those at the place of the open one."""
        live = Settlement.objects.get(payment=one.payment_id, is_void=False, state__in=OPEN_STATES)
        if live.nonce is None:
            return [live]
        rows = Settlement.objects.filter(payment=one.payment_id, relayer=live.relayer, nonce=live.nonce)
        return list(rows.order_by("created_at"))

    def _land_what_is_before(self, row: Settlement) -> None:
        """Let all land that a transaction has to wait for."""

    def _end_of(self, one: Bought) -> Any:
        """Tell the last moment or height at which a chain takes a payment."""
        raise NotImplementedError

    def _is_past(self, end: Any) -> bool:
        """Tell whether the chain can no longer take what it took until then."""
        raise NotImplementedError


class HistoryWithNonces(History):
    """Deadlines are by time, fees are raised, a payment waits for those before it in its line, what is lost is void."""

    has_nonces = True

    @rule()
    def raise_fees(self) -> None:
        waiting = Settlement.objects.filter(chain=self.chain.name, state=SettlementState.BROADCAST)
        for row in waiting.select_related("relayer", "payment"):
            assert stuck_transactions._replace(row, self.chain, {}) == 1

    @precondition(lambda self: self._open())
    @rule(data=st.data(), is_worth_renewing=st.booleans())
    def let_payments_expire(self, data: st.DataObject, is_worth_renewing: bool) -> None:
        """What has this deadline can still be paid; what has an earlier one cannot."""
        self._advance()
        if self._open():
            deadline = self._end_of(data.draw(st.sampled_from(self._open())))
            self._advance(moment=deadline, is_worth_renewing=is_worth_renewing)

    @precondition(lambda self: any(one.is_lost for one in self._may_be_paid()))
    @rule(data=st.data(), is_final=st.booleans())
    def let_a_void_land(self, data: st.DataObject, is_final: bool) -> None:
        one = data.draw(st.sampled_from([one for one in self._may_be_paid() if one.is_lost]))
        void = Settlement.objects.get(payment=one.payment_id, is_void=True, state__in=OPEN_STATES)
        self._land_what_is_before(void)
        self.chain.include(void, is_final=False)
        self._follow()
        if is_final:
            self._advance()
            assert one.has_failed

    def _land_what_is_before(self, row: Settlement) -> None:
        """Let all that is before a transaction in its line land and do what it was made for, fillers of gaps too."""
        relayers.refresh_relayers(self.chain.name, self.chain, {})
        before = Settlement.objects.filter(relayer=row.relayer, nonce__lt=row.nonce, state__in=OPEN_STATES)
        for earlier in before.select_related("payment", "relayer").order_by("nonce"):
            if earlier.tx not in self.chain.blocks:
                is_used = earlier.payment is not None and not self._is_free(earlier.payment)
                self.chain.include(earlier, is_final=False, failure="Reverted: AlreadyUsed" if is_used else None)
        for one in self._open():
            paying = before.filter(payment=one.payment_id, is_void=False)
            one.is_in_block = one.is_in_block or paying.exists()

    def _is_free(self, payment: Payment) -> bool:
        """Tell whether the escrow has neither paid nor voided the id of a payment, which it does once."""
        seen = [tx for tx, seen in self.chain.blocks.items() if seen.failure is None]
        is_used = Settlement.objects.filter(payment=payment, tx__in=seen).exists()
        return not is_used and payment.escrow_id not in self.chain.paid | self.chain.voided

    def _end_of(self, one: Bought) -> datetime:
        rows = Settlement.objects.filter(payment=one.payment_id, is_void=False)
        return max(row.valid_until for row in rows if row.valid_until is not None)

    def _is_past(self, end: datetime) -> bool:
        return self.chain.finality.time > end


class HistoryWithoutNonces(History):
    """Deadlines are by height, and what is past them is over once the escrow's history was searched beyond."""

    has_nonces = False

    @precondition(lambda self: self._open())
    @rule(data=st.data(), is_worth_renewing=st.booleans())
    def let_payments_expire(self, data: st.DataObject, is_worth_renewing: bool) -> None:
        last = self._end_of(data.draw(st.sampled_from(self._open())))
        self._advance(last + HEIGHT_MARGIN, is_worth_renewing=is_worth_renewing)

    def _end_of(self, one: Bought) -> int:
        live = Settlement.objects.get(payment=one.payment_id, state__in=OPEN_STATES)
        return live.valid_until_height or 0

    def _is_past(self, end: int) -> bool:
        return self.chain.finality.height >= end + HEIGHT_MARGIN


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
