"""Random histories of one agent, checked at each step against a model that remembers all and sums by brute force.

On a chain of either kind: with nonces fees are raised, gaps filled and lost payments voided; on both, what expired is
signed again, a thief submits payments of ours as transactions that nobody knows, and takes out what is none of ours.
"""

import os
from datetime import datetime

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as Settings  # noqa: N812 - pytest-django's is meant by `settings`
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from payments.lifecycle import OPEN_STATES, SettlementState
from payments.models import DepositCursor, Payment, Settlement
from payments.settling import relayers, stuck_transactions
from payments.settling.chain_switch import start_signing_on
from payments.settling.next_states import HEIGHT_MARGIN
from tests.support.asking_model import AskingModel
from tests.support.model_records import Bought
from tests.support.scenes import row_of

pytestmark = pytest.mark.long(55)


class History(AskingModel):
    """One agent, one service, one chain; the clock is the test's.

    What has expired is signed again while the test says so, whatever the time; it is given back otherwise.
    """

    # --- What can happen ----------------------------------------------------------------------------------------------
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
        start_signing_on(self.chain.name, by="ann")
        self.is_stopped = False
        self._follow()

    @precondition(lambda self: self.bought)
    @rule()
    def search_all_once_more(self) -> None:
        """As after a backup was restored: what is known is not found again, nor does it stop anything again."""
        DepositCursor.objects.filter(chain=self.chain.name).update(block_number=0)
        self._follow()


class HistoryWithNonces(History):
    """Deadlines are by time, fees are raised, a payment waits for those before it in its line, what is lost is void."""

    has_nonces = True

    @rule()
    def raise_fees(self) -> None:
        waiting = Settlement.objects.filter(chain=self.chain.name, state=SettlementState.BROADCAST)
        for row in waiting.select_related("relayer"):
            assert stuck_transactions._replace(row_of(row), row.relayer, self.chain, {}) == 1

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
        void = Settlement.objects.get(payments=one.payment_id, is_void=True, state__in=OPEN_STATES)
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
        for earlier in before.select_related("first_payment", "relayer").order_by("nonce"):
            if earlier.tx not in self.chain.blocks:
                is_used = earlier.first_payment is not None and not self._is_free(earlier.first_payment)
                self.chain.include(earlier, is_final=False, failure="Reverted: AlreadyUsed" if is_used else None)
        for one in self._open():
            paying = before.filter(payments=one.payment_id, is_void=False)
            one.is_in_block = one.is_in_block or paying.exists()

    def _is_free(self, payment: Payment) -> bool:
        """Tell whether the escrow has neither paid nor voided the id of a payment, which it does once."""
        seen = [tx for tx, seen in self.chain.blocks.items() if seen.failure is None]
        is_used = Settlement.objects.filter(payments=payment, tx__in=seen).exists()
        return not is_used and payment.escrow_id not in self.chain.paid | self.chain.voided

    def _end_of(self, one: Bought) -> datetime:
        rows = Settlement.objects.filter(payments=one.payment_id, is_void=False)
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
        live = Settlement.objects.get(payments=one.payment_id, state__in=OPEN_STATES)
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
