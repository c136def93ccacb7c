"""What one agent has bought, remembered in full and summed by brute force."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from foundation.kernel.errors import ContractError, PolicySignerUnavailable
from ledger.models import Hold, LogEntry
from payments.deciding.operations import Approval, request_payment
from payments.deciding.requests import PaymentRequest
from payments.lifecycle import OPEN_STATES, SettlementState
from payments.models import ChainState, Outflow, Payment, Settlement
from payments.reconciling.escrow_history import search_history
from payments.settling import renewal
from payments.settling.broadcasting import broadcast
from payments.settling.confirming import confirm
from payments.settling.unpaid import resolve_unpaid
from policy.limits import Limits
from policy.models import Agent
from policy.more_limits import MoreLimits, given
from policy.rules import RULE_NAMES
from tests.support.evaluations import assert_decided_as_evaluated, evaluate_or_refuse, is_of_an_earlier_decision
from tests.support.factories import make_agent, new_name, seen_by
from tests.support.fake_chain import make_fake_chain
from tests.support.invariants import DAY, WEEK, check_agent, check_nonces
from tests.support.model_records import Bought, Decided, Expected, Waiting
from tests.support.optional_limits import Paid, Remembered
from tests.support.payment_requests import environment_of, make_service_on
from tests.support.scripted_chain import outflow_of

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


def asks(more: MoreLimits) -> bool:
    """Tell whether a person has to approve some payments."""
    return (more.approval_above, more.approval_above_day, more.approval_for_first) != (None, None, None)


_NUMBERS = st.none() | st.sampled_from([0, 1, 3])
OPTIONAL = st.just(MoreLimits()) | st.builds(
    MoreLimits,
    hourly_limit=st.none() | LIMITS,
    monthly_limit=st.none() | LIMITS,
    total_limit=st.none() | LIMITS,
    payments_per_hour=_NUMBERS,
    payments_per_day=_NUMBERS,
    payee_daily_limit=st.none() | LIMITS,
    payee_weekly_limit=st.none() | LIMITS,
    approval_above=st.none() | LIMITS,
    approval_above_day=st.none() | LIMITS,
    approval_for_first=st.none() | st.just(True),
    approval_hours=st.none() | st.sampled_from([1, 30]),
).map(lambda more: more if asks(more) else replace(more, approval_hours=None))

# How transactions end that have not paid.
GAVE_WAY = {SettlementState.FAILED, SettlementState.EXPIRED, SettlementState.REPLACED}


class AgentModel(RuleBasedStateMachine):
    """One agent, one service, one chain, and what the agent must have by now; the clock is the test's."""

    has_nonces: bool

    @initialize(daily=LIMITS, weekly=LIMITS, more=OPTIONAL, balance=st.sampled_from(["8", "30", "500"]))
    def begin(self, daily: Decimal, weekly: Decimal, more: MoreLimits, balance: str) -> None:
        self.chain = make_fake_chain(relayers=2, has_nonces=self.has_nonces)
        self.service = make_service_on(self.chain)
        self.agent = make_agent(
            max_per_payment="10", daily_limit=str(daily), weekly_limit=str(weekly), balance=balance,
            **{part.field: value for part, value in given(more)},
        )  # fmt: skip
        self.balance = Decimal(balance)
        self.limits = Limits(Decimal(10), daily, weekly, None, more)
        self.now = START
        self.last_at = START - timedelta(days=365)
        self.is_paused = False
        self.is_disabled = False
        self.bought: list[Bought] = []
        self.decided: list[Decided] = []
        self.waiting: list[Waiting] = []
        self.stolen: list[str] = []
        self.is_stopped = False

    # --- What must always hold ----------------------------------------------------------------------------------------
    @invariant()
    def all_that_must_hold_for_an_agent_holds(self) -> None:
        check_agent(self.agent.id)
        check_nonces(self.chain.name)

    @invariant()
    def database_and_model_agree(self) -> None:
        held = sum((one.amount for one in self.waiting), Decimal(0))
        assert Agent.objects.get(pk=self.agent.pk).balance == self.balance >= held
        open_holds = Hold.objects.filter(agent=self.agent, ended_at=None)
        assert {one.payment_id: str(one.answer or "") for one in self.waiting} == dict(
            open_holds.values_list("pk", "answer")
        )
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
    def _judge(self, amount: Decimal, at: datetime, approved: Waiting | None = None) -> Expected:
        """Tell what must be decided; `approved` is what a person has approved, if it is that."""
        waiting = [one for one in self.waiting if one is not approved]
        held = sum((one.amount for one in waiting), Decimal(0))
        checks = {
            "agent_active": not self.is_paused,
            "service_approved": not self.is_disabled,
            "balance_covers_payment": amount <= self.balance - held,
            "under_weekly_limit": self._spent(at - WEEK, self.bought) + held + amount <= self.limits.weekly_limit,
            "under_daily_limit": self._spent(at - DAY, self.bought) + held + amount <= self.limits.daily_limit,
            "under_max_payment": amount <= self.limits.max_per_payment,
        }
        broken = [name for name, holds in checks.items() if not holds]
        payee, more = self.service.id, self.limits.more
        paid = Remembered(
            [Paid(one.at, payee, one.amount, one.has_failed) for one in self.bought],
            [Paid(at, payee, one.amount) for one in waiting],
        )
        broken += paid.refusing_rules(more, payee, amount, at)
        if broken:
            return Expected("blocked", min(broken, key=RULE_NAMES.index))
        holding = [] if approved else paid.holding_rules(more, payee, amount, at)
        return Expected("held", holding[0]) if holding else Expected("approved", "under_max_payment")

    @staticmethod
    def _spent(since: datetime, bought: list[Bought]) -> Decimal:
        return sum((one.amount for one in bought if one.at > since and not one.has_failed), Decimal(0))

    def _open(self) -> list[Bought]:
        return [one for one in self.bought if not one.is_over]

    def _ask(self, request: PaymentRequest) -> Approval | ContractError:
        """Request a payment, after asking what would be decided: that is what is decided, unless it was before."""
        environment = environment_of(self.chain, self.now)
        with seen_by(self.now, self.chain.name):
            evaluated = evaluate_or_refuse(request, environment)
            try:
                decided: Approval | ContractError = request_payment(request, environment)
            except ContractError as error:
                decided = error
        if not is_of_an_earlier_decision(decided):
            assert_decided_as_evaluated(evaluated, decided)
        return decided

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
                    live = Settlement.objects.filter(payments=payment, is_void=False, state__in=OPEN_STATES)
                    assert live.count() == 1

    def _end(self, one: Bought, *, has_failed: bool) -> None:
        one.is_over, one.has_failed, one.is_in_block = True, has_failed, False
        if has_failed:
            self.balance += one.amount
        assert Payment.objects.get(pk=one.payment_id).status == ("failed" if has_failed else "settled")
        rows = Settlement.objects.filter(payments=one.payment_id, is_void=False)
        states = list(rows.values_list("state", flat=True))
        assert states.count(SettlementState.FINAL) == (not has_failed)
        assert set(states) <= {SettlementState.FINAL, *GAVE_WAY}

    def _may_be_paid(self) -> list[Bought]:
        """Find what no block has paid or voided so far, final or not."""
        done = {
            str(self.chain.landed[tx].first_payment_id)
            for tx, seen in self.chain.blocks.items()
            if seen.failure is None
        }
        return [one for one in self._open() if not one.is_in_block and one.payment_id not in done]

    def _may_land(self, one: Bought) -> list[Settlement]:
        """Find the transactions of a payment that a chain may take: those at the place of the open one."""
        live = Settlement.objects.get(payments=one.payment_id, is_void=False, state__in=OPEN_STATES)
        if live.nonce is None:
            return [live]
        rows = Settlement.objects.filter(payments=one.payment_id, relayer=live.relayer, nonce=live.nonce)
        return list(rows.order_by("created_at"))

    def _land_what_is_before(self, row: Settlement) -> None:
        """Let all land that a transaction has to wait for."""

    def _end_of(self, one: Bought) -> Any:
        """Tell the last moment or height at which a chain takes a payment."""
        raise NotImplementedError

    def _is_past(self, end: Any) -> bool:
        """Tell whether the chain can no longer take what it took until then."""
        raise NotImplementedError
