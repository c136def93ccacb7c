"""An outflow that the ledger does not know stops signing, final or not."""

from dataclasses import replace
from decimal import Decimal

import pytest

from chains.port import EscrowSearch, VoidEvent
from foundation.kernel.assets import Asset
from foundation.kernel.errors import PolicySignerUnavailable
from foundation.kernel.times import utc_now
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import ChainState, DepositCursor, Settlement
from payments.settling.chain_switch import start_signing_on
from tests.support.factories import new_address
from tests.support.invariants import check_agent
from tests.support.outflows import (
    assert_all_known,
    assert_stopped_by,
    landed,
    outflow,
    outflows,
    search,
    search_again,
    take_out,
    withdrawal,
)
from tests.support.scenes import HOUR, state_of, states_of, status_of, transaction_of, transactions_of

S = SettlementState
TOO_OLD = 2 * HOUR


# --- It is not what the ledger knows ----------------------------------------------------------------------------------
@pytest.mark.parametrize("changes", [{"amount": Decimal("0.99")}, {"asset": Asset.EURC}], ids=["amount", "asset"])
def test_one_that_is_not_what_was_approved_stops_signing_and_pays_nothing(scene, changes):
    payment = scene.pay_and_send()
    found = take_out(scene, payment, **changes)

    search(scene)

    assert_stopped_by(scene, found, f"{payment.pk} is of 1.00 USDC to {payment.recipient}.")
    assert (states_of(payment), status_of(payment)) == ([S.BROADCAST], PaymentStatus.APPROVED)
    check_agent(scene.agent.id)


def test_one_that_went_to_somebody_else_stops_signing_and_pays_nothing(counting):
    payment = counting.pay_and_send()
    found = take_out(counting, payment, recipient=new_address())

    search(counting)

    assert_stopped_by(counting, found, f"{payment.pk} is of 1.00 USDC to {payment.recipient}.")
    assert (states_of(payment), status_of(payment)) == ([S.BROADCAST], PaymentStatus.APPROVED)


@pytest.mark.parametrize("is_found_later", [True, False], ids=["in a later search", "in the same search"])
def test_a_payment_that_is_paid_twice_stops_signing(scene, is_found_later):
    payment = scene.pay_and_send()
    first = take_out(scene, payment)
    if is_found_later:
        search(scene)
    second = take_out(scene, payment)

    search(scene)

    assert_stopped_by(scene, second, f"{payment.pk} was paid by {first.tx}.")
    assert (states_of(payment), status_of(payment)) == ([S.REPLACED, S.FINAL], PaymentStatus.SETTLED)
    check_agent(scene.agent.id)


@pytest.mark.parametrize("has_nonces", [False], ids=["no nonces"])
def test_a_payment_that_lands_itself_although_another_one_has_paid_it_stops_signing(scene):
    """Where the escrow does not count payments."""
    payment = scene.pay_and_send()
    ours = transaction_of(payment)
    theirs = take_out(scene, payment)
    search(scene)
    scene.chain.include(ours)

    scene.confirm()

    assert (states_of(payment), status_of(payment)) == ([S.REPLACED, S.FINAL], PaymentStatus.SETTLED)
    (kept,) = outflows(scene)
    assert (kept.tx, kept.why) == (ours.tx, f"{payment.pk} was paid by {theirs.tx}.")
    assert ours.tx in scene.stopped_reason()


@pytest.mark.parametrize("is_settled", [True, False], ids=["settled", "given back"])
def test_a_payment_that_is_paid_after_its_end_stops_signing(scene, is_settled):
    payment = scene.pay_and_send(now=utc_now() - TOO_OLD)
    if is_settled:
        scene.chain.include(transaction_of(payment))
    else:
        scene.pass_deadline(payment)
    assert scene.confirm() == 1
    status = status_of(payment)

    found = take_out(scene, payment)
    search(scene)

    why = f"was paid by {transaction_of(payment).tx}." if is_settled else "was given back."
    assert_stopped_by(scene, found, f"{payment.pk} {why}")
    assert (status_of(payment), len(transactions_of(payment))) == (status, 1)
    assert scene.returns().count() == (0 if is_settled else 1)
    check_agent(scene.agent.id)


@pytest.mark.parametrize("name", ["", "pay_00000000000000000000000000", "0x" + "77" * 32, "anything"])
def test_one_that_names_no_payment_of_ours_stops_signing(scene, name):
    payment = scene.pay_and_send()
    found = take_out(scene, payment, escrow_id=name)

    search(scene)

    assert_stopped_by(scene, found, "It is neither a payment nor a withdrawal of ours.")
    assert not Settlement.objects.filter(pk=found.tx).exists()
    assert state_of(payment) == S.BROADCAST


def test_one_of_a_token_that_is_not_served_stops_signing(scene):
    found = take_out(scene, scene.pay_and_send(), escrow_id="", asset=None, token="unknown")
    search(scene)
    assert_stopped_by(scene, found, "It is neither a payment nor a withdrawal of ours.")


def test_a_transaction_that_was_proven_to_have_failed_and_has_paid_stops_signing(counting):
    payment = counting.pay_and_send()
    row = transaction_of(payment)
    counting.use_elsewhere(row)
    counting.confirm()
    assert state_of(payment) == S.FAILED
    found = replace(outflow(counting, payment), tx=row.tx)
    counting.chain.outflows.append(found)
    counting.chain.finalise(found.block_number)

    search(counting)

    assert_stopped_by(counting, found, f"{payment.pk} was proven not to be paid by it.")
    assert (state_of(payment), status_of(payment)) == (S.FAILED, PaymentStatus.APPROVED)


def test_what_was_found_once_is_not_found_again_nor_stops_a_chain_that_was_started_again(scene, caplog):
    payment = scene.pay_and_send()
    strange = [take_out(scene, payment, escrow_id="of nobody"), take_out(scene, payment, amount=Decimal(7))]
    search(scene)
    assert [one.tx for one in outflows(scene)] == [one.tx for one in strange]
    assert strange[0].tx in scene.stopped_reason()
    start_signing_on(scene.chain.name, by="ann")
    caplog.clear()

    search_again(scene)

    assert len(outflows(scene)) == 2
    assert scene.stopped_reason() == ""
    assert caplog.text == ""


def test_a_chain_that_was_never_observed_is_stopped_too(scene):
    found = take_out(scene, scene.pay_and_send(), escrow_id="of nobody")
    ChainState.objects.filter(chain=scene.chain.name).delete()

    search(scene)

    assert_stopped_by(scene, found, "It is neither a payment nor a withdrawal of ours.")
    scene.observe()
    assert found.tx in scene.stopped_reason()


@pytest.mark.parametrize("has_nonces", [False], ids=["no nonces"])
def test_a_memo_longer_than_what_is_kept_of_it_stops_signing_and_holds_up_nothing(scene):
    """Whoever has two of the three keys writes what memo they like."""
    payment = scene.pay_and_send()
    take_out(scene, payment, escrow_id="x" * 700)
    take_out(scene, payment)

    search(scene)

    assert [one.escrow_id for one in outflows(scene)] == ["x" * 500]
    assert scene.stopped_reason()
    assert status_of(payment) == PaymentStatus.SETTLED


# --- Not final yet ----------------------------------------------------------------------------------------------------
def test_an_outflow_that_is_not_final_yet_stops_signing_and_is_written_down_once_it_is(scene):
    payment = scene.pay_and_send()
    found = outflow(scene, payment, escrow_id="of nobody")
    scene.chain.peeked = EscrowSearch(outflows=[found])

    search(scene)

    why = "It is neither a payment nor a withdrawal of ours."
    assert scene.stopped_reason() == f"The ledger does not know {found.tx}, which is not final yet. {why}"
    assert outflows(scene) == []
    with pytest.raises(PolicySignerUnavailable):
        scene.pay()
    scene.chain.peeked = EscrowSearch()
    scene.chain.outflows.append(found)
    scene.chain.finalise(found.block_number)
    search(scene)
    assert [(one.tx, one.why) for one in outflows(scene)] == [(found.tx, why)]


def test_a_void_that_is_not_final_yet_and_names_nobody_stops_signing(counting):
    counting.chain.peeked = EscrowSearch(voids=[VoidEvent("0x1", 0, 1000, "0x" + "77" * 32)])
    search(counting)
    assert counting.stopped_reason().startswith("The ledger does not know 0x1, which is not final yet.")
    assert outflows(counting) == []


def test_what_the_ledger_knows_and_is_not_final_yet_changes_nothing(scene):
    payment, booked = scene.pay_and_send(), withdrawal(scene)
    named = {"escrow_id": "", "recipient": booked.recipient}
    if not scene.chain.has_nonces:
        named = {"escrow_id": booked.reference, "recipient": ""}
    leaving = outflow(scene, payment, amount=booked.amount, **named)
    voids = [VoidEvent("0x1", 0, 1000, payment.escrow_id)] if scene.chain.has_nonces else []
    scene.chain.peeked = EscrowSearch(outflows=[outflow(scene, payment), leaving], voids=voids)

    search(scene)

    assert_all_known(scene)
    assert (states_of(payment), status_of(payment)) == ([S.BROADCAST], PaymentStatus.APPROVED)
    assert landed(booked) == ("", None)
    assert not scene.returns()


def test_nobody_looks_ahead_before_what_is_final_was_searched(scene):
    scene.chain.finalise(500)
    scene.chain.contradicted = {499}
    with pytest.raises(Exception, match="contradict"):
        search(scene)
    assert "peek" not in scene.chain.asked
    assert DepositCursor.objects.get(chain=scene.chain.name).complete_at is None
    scene.chain.contradicted = set()
    search(scene)
    assert DepositCursor.objects.get(chain=scene.chain.name).complete_at is not None
