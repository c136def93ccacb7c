"""What left an escrow: it ends the payment that it names, lands a withdrawal of ours, or stops signing.

On chains of both kinds, unless it says otherwise: one without nonces does not tell who was paid, nor voids anything.
"""

import base64
import json
import time
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from allowance.kernel.assets import Asset
from allowance.kernel.errors import PolicySignerUnavailable
from allowance.kernel.times import utc_now
from chains.port import EscrowSearch, Inclusion, OutflowEvent, VoidEvent
from chains.solana.derivation import relayer_keypair
from payments.api.serializers import present_payment
from payments.funding.expected_holdings import ExpectedHoldings, SettledBefore
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import ChainState, DepositCursor, Outflow, Payment, Settlement, Withdrawal
from payments.reconciling.escrow_history import search_history
from payments.reconciling.settled_payments import check_settled_payments
from payments.settling.chain_switch import start_signing_on
from services.models import WebhookEvent
from tests.ledger.test_evidence import tamper
from tests.payments.settling.test_settlement import has, let_expire, on_solana
from tests.support.chains import PATIENCE_S, outflow_of
from tests.support.ed25519 import sign_otherwise
from tests.support.factories import new_address, new_name
from tests.support.invariants import check_agent, check_nonces
from tests.support.localnets import SOLANA, Localnet
from tests.support.scenes import (
    HOUR,
    Scene,
    at_once,
    state_of,
    states_of,
    status_of,
    transaction_of,
    transactions_of,
    transitions_of,
)

S = SettlementState
TOO_OLD = 2 * HOUR


@pytest.fixture
def counting(db: None) -> Scene:
    """A chain whose escrow counts payments: it has nonces, voids, and tells who was paid."""
    return Scene()


def outflow(scene: Scene, payment: Payment, **changes: Any) -> OutflowEvent:
    """Say what the history tells of a transaction in the next block that nobody here knows."""
    recipient = payment.recipient if scene.chain.has_nonces else ""
    facts = {"recipient": recipient, **changes}
    return outflow_of(payment, new_name("tx"), scene.chain.finality.block_number + 1, **facts)


def take_out(scene: Scene, payment: Payment, **changes: Any) -> OutflowEvent:
    """Let a transaction that nobody here knows have paid for a payment, in the newest final block."""
    found = outflow(scene, payment, **changes)
    scene.chain.outflows.append(found)
    scene.chain.finalise(found.block_number)
    return found


def make_void(scene: Scene, escrow_id: str) -> VoidEvent:
    """Let the escrow have voided an id in the newest final block, which nobody here asked for."""
    scene.chain.finalise(scene.chain.finality.block_number + 1)
    found = VoidEvent(new_name("tx"), 0, scene.chain.finality.block_number, escrow_id)
    scene.chain.voids.append(found)
    scene.chain.voided.add(escrow_id)
    return found


def search(scene: Scene) -> None:
    search_history(scene.chain.name, scene.chain)


def search_again(scene: Scene) -> None:
    """Search all blocks once more, as after a restored backup."""
    DepositCursor.objects.filter(chain=scene.chain.name).update(block_number=0)
    search(scene)


def outflows(scene: Scene) -> list[Outflow]:
    return list(Outflow.objects.filter(chain=scene.chain.name).order_by("id"))


def assert_stopped_by(scene: Scene, found: OutflowEvent | VoidEvent, why: str) -> None:
    """See that it was written down once, with its reason, and that nothing is signed on the chain any more."""
    (kept,) = outflows(scene)
    assert (kept.tx, kept.log_index, kept.block_number) == (found.tx, found.log_index, found.block_number)
    assert (kept.escrow_id, kept.why) == (found.escrow_id, why)
    assert (kept.movement, kept.booked_at, kept.booked_by) == (None, None, "")
    if isinstance(found, OutflowEvent):
        assert (kept.token, kept.asset, kept.recipient) == (found.token, found.asset, found.recipient)
        assert kept.amount == found.amount
    else:
        assert (kept.token, kept.asset, kept.amount, kept.recipient) == ("", None, 0, "")
    assert scene.stopped_reason() == f"The ledger does not know {found.tx}. {why}"
    with pytest.raises(PolicySignerUnavailable):
        scene.pay()


def assert_all_known(scene: Scene) -> None:
    assert (outflows(scene), scene.stopped_reason()) == ([], "")


# --- It pays what is approved -----------------------------------------------------------------------------------------
def test_an_unknown_transaction_that_pays_an_approved_payment_settles_it_once(scene, caplog):
    payment = scene.pay_and_send()
    found = take_out(scene, payment)

    search(scene)
    search_again(scene)

    ours, theirs = Settlement.objects.filter(payment=payment).order_by("created_at")
    assert (ours.state, transitions_of(ours)[-1][2]) == (S.REPLACED, f"{found.tx} was included in its place.")
    assert (theirs.tx, theirs.state, bytes(theirs.raw), theirs.nonce) == (found.tx, S.FINAL, b"", None)
    assert (theirs.block_number, theirs.block_hash) == (found.block_number, found.block_hash)
    assert status_of(payment) == PaymentStatus.SETTLED
    assert f"{payment.pk} is paid by the unknown transaction {found.tx}" in caplog.text
    assert scene.events() == ["payment.approved", "payment.settled"]
    assert_all_known(scene)
    check_agent(scene.agent.id)


def test_our_own_transaction_reverts_after_another_one_has_paid_and_its_nonce_is_lost_to_nobody(counting):
    payment = counting.pay_and_send()
    ours = transaction_of(payment)
    take_out(counting, payment)
    search(counting)
    counting.tend()
    (filler,) = counting.fillers()
    assert filler.nonce == ours.nonce
    counting.broadcast()

    counting.chain.include(ours, failure="Reverted: AlreadyUsed")
    assert [counting.confirm(), counting.confirm()] == [1, 0]

    assert (states_of(payment)[0], counting.fillers()[0].state) == (S.FAILED, S.REPLACED)
    assert status_of(payment) == PaymentStatus.SETTLED
    assert_all_known(counting)
    check_agent(counting.agent.id)
    check_nonces(counting.chain.name)


def test_one_of_its_own_transactions_that_was_replaced_settles_it_as_itself(counting):
    payment = counting.pay_and_send()
    counting.bump()
    first, second = transactions_of(payment)
    counting.chain.include(first)

    search(counting)

    assert [(row.tx, row.state) for row in transactions_of(payment)] == [(first.tx, S.FINAL), (second.tx, S.REPLACED)]
    assert status_of(payment) == PaymentStatus.SETTLED
    check_agent(counting.agent.id)


def test_an_expired_payment_that_another_one_has_paid_is_neither_signed_again_nor_given_back(scene):
    payments = [scene.pay_and_send(now=utc_now() - TOO_OLD), scene.pay_and_send()]
    paid_by = [take_out(scene, payment).tx for payment in payments]
    scene.chain.paid |= {payment.escrow_id for payment in payments}
    for payment in payments:
        scene.pass_deadline(payment)

    scene.confirm()
    scene.confirm()

    assert {status_of(payment) for payment in payments} == {PaymentStatus.SETTLED}
    finals = Settlement.objects.filter(payment__in=payments, state=S.FINAL)
    assert set(finals.values_list("tx", flat=True)) == set(paid_by)
    assert {len(transactions_of(payment)) for payment in payments} == {2}
    assert not scene.returns()
    assert_all_known(scene)
    check_agent(scene.agent.id)


def test_a_lost_payment_that_a_thief_submits_before_it_is_void_is_settled_and_its_void_reverts(counting):
    """The relayer's key alone: it cannot pay anything that was not approved, nor twice."""
    payment = counting.pay_and_send()
    counting.chain.include(transaction_of(payment), failure="Reverted.")
    counting.confirm()
    void = Settlement.objects.get(payment=payment, is_void=True)
    found = take_out(counting, payment)
    counting.broadcast()
    counting.chain.include(void, failure="Reverted: AlreadyUsed")

    counting.confirm()
    counting.confirm()

    assert status_of(payment) == PaymentStatus.SETTLED
    assert [(row.tx, row.state) for row in transactions_of(payment)][1:] == [(found.tx, S.FINAL)]
    assert Settlement.objects.get(pk=void.pk).state == S.FAILED
    assert Settlement.objects.filter(payment=payment, is_void=True).count() == 1
    assert not counting.returns()
    assert_all_known(counting)
    check_agent(counting.agent.id)
    check_nonces(counting.chain.name)


@pytest.mark.parametrize("is_our_own", [False, True], ids=["of theirs", "that was to fill a nonce of ours"])
def test_one_transaction_that_pays_several_payments_settles_each(counting, is_our_own):
    """The relayer's key alone: its account can run code (EIP-7702), which calls the escrow more than once."""
    first, second = counting.pay_and_send(), counting.pay_and_send()
    both = [outflow(counting, payment, log_index=index) for index, payment in enumerate((first, second))]
    counting.skip_nonce()
    counting.tend()
    tx = counting.fillers()[0].tx if is_our_own else both[0].tx
    counting.chain.outflows += [replace(one, tx=tx) for one in both]
    counting.chain.paid |= {first.escrow_id, second.escrow_id}
    counting.chain.finalise(both[0].block_number)

    search(counting)
    search_again(counting)

    assert status_of(first) == status_of(second) == PaymentStatus.SETTLED
    for payment in (first, second):
        shown = present_payment(payment)
        assert (shown["finalTx"], shown["transactions"][0]["tx"], shown["tx"]) == (tx, tx, tx)
        assert [row.state for row in transactions_of(payment)] == [S.REPLACED, S.FINAL]
    told = WebhookEvent.objects.filter(service=counting.service, type="payment.settled")
    assert [json.loads(one.payload)["data"]["tx"] for one in told] == [tx, tx]
    counting.chain.blocks[tx] = Inclusion(both[0].block_number, both[0].block_hash, is_final=True, failure=None)
    asked = check_settled_payments(
        counting.chain.name,
        Asset.USDC,
        counting.chain,
        counting.chain.finality,
        expected=ExpectedHoldings(Decimal(0), Decimal(0), None),
        checked_before=SettledBefore(),
        recheck=[first.pk, second.pk],
        pages=0,
    )
    assert asked.unconfirmed == []
    assert_all_known(counting)
    check_agent(counting.agent.id)
    check_nonces(counting.chain.name)


@pytest.mark.usefixtures("committed")
def test_several_watchers_that_find_it_at_once_settle_it_once(has_nonces):
    scene = Scene(has_nonces=has_nonces)
    payments = [scene.pay_and_send() for _ in range(4)]
    for payment in payments:
        take_out(scene, payment)
    take_out(scene, payments[0], escrow_id="of nobody")

    at_once([lambda: search(scene)] * 4)

    assert [status_of(payment) for payment in payments] == [PaymentStatus.SETTLED] * 4
    assert [len(transactions_of(payment)) for payment in payments] == [2] * 4
    assert scene.events().count("payment.settled") == 4
    assert len(outflows(scene)) == 1
    check_agent(scene.agent.id)


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
    start_signing_on(scene.chain.name)
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


# --- Withdrawals ------------------------------------------------------------------------------------------------------
def withdrawal(scene: Scene, **changes: Any) -> Withdrawal:
    """Book a withdrawal of 25 USDC, as the command does before its owner signs."""
    facts = {"chain": scene.chain.name, "escrow": scene.chain.escrow, "asset": "USDC", "amount": Decimal(25)}
    facts |= {"reference": new_name("wd"), "recipient": new_address(), "author": "test", "created_at": utc_now()}
    return Withdrawal.objects.create(**(facts | changes))


def land(scene: Scene, booked: Withdrawal, **changes: Any) -> OutflowEvent:
    """Let a withdrawal leave the escrow: an EVM chain tells to whom, Solana under which memo."""
    named = {"escrow_id": "", "recipient": booked.recipient}
    if not scene.chain.has_nonces:
        named = {"escrow_id": booked.reference, "recipient": ""}
    facts = named | {"asset": Asset(booked.asset), "amount": booked.amount} | changes
    return take_out(scene, scene.pay(), **facts)


def landed(booked: Withdrawal) -> tuple[str, int | None]:
    booked.refresh_from_db()
    return booked.landed_tx, booked.landed_block


def test_a_withdrawal_of_ours_lands_once_and_is_no_outflow(scene):
    booked, other = withdrawal(scene), withdrawal(scene)
    found = land(scene, booked)

    search(scene)
    search_again(scene)

    assert landed(booked) == (found.tx, found.block_number)
    assert landed(other) == ("", None)
    assert_all_known(scene)


def test_two_withdrawals_that_are_alike_land_each_once_and_a_third_is_an_outflow(counting):
    to = new_address()
    alike = [withdrawal(counting, recipient=to) for _ in range(2)]
    found = [land(counting, alike[0]) for _ in range(3)]

    search(counting)

    assert [landed(one)[0] for one in alike] == [found[0].tx, found[1].tx]
    assert_stopped_by(counting, found[2], "It is neither a payment nor a withdrawal of ours.")


@pytest.mark.parametrize("changes", [{"amount": Decimal("25.01")}, {"asset": Asset.EURC}], ids=["amount", "asset"])
def test_what_is_not_what_was_booked_is_no_withdrawal(scene, changes):
    booked = withdrawal(scene)
    found = land(scene, booked, **changes)

    search(scene)

    assert landed(booked) == ("", None)
    assert_stopped_by(scene, found, "It is neither a payment nor a withdrawal of ours.")


def test_what_went_to_somebody_else_is_no_withdrawal(counting):
    booked = withdrawal(counting)
    found = land(counting, booked, recipient=new_address())
    search(counting)
    assert landed(booked) == ("", None)
    assert_stopped_by(counting, found, "It is neither a payment nor a withdrawal of ours.")


def test_a_withdrawal_that_was_cancelled_and_lands_is_an_outflow(scene):
    booked = withdrawal(scene, cancelled_at=utc_now())
    found = land(scene, booked)

    search(scene)

    assert landed(booked) == ("", None)
    assert_stopped_by(scene, found, "It is neither a payment nor a withdrawal of ours.")


def test_a_withdrawal_of_another_chain_is_none_here(scene):
    booked = withdrawal(scene, chain="another")
    found = land(scene, booked)
    search(scene)
    assert landed(booked) == ("", None)
    assert_stopped_by(scene, found, "It is neither a payment nor a withdrawal of ours.")


# --- Void -------------------------------------------------------------------------------------------------------------
def test_an_approved_payment_that_the_escrow_has_voided_unasked_is_given_back_once(counting):
    """As before a backup was restored, from which on nobody knows that it was asked for."""
    payment = counting.pay_and_send()
    make_void(counting, payment.escrow_id)

    search(counting)
    search_again(counting)

    failed = Payment.objects.get(pk=payment.pk)
    assert (failed.status, failed.failure_reason) == (PaymentStatus.FAILED, "Void in the escrow.")
    assert counting.returns().get().amount == 1
    assert counting.events() == ["payment.approved", "payment.failed"]
    assert_all_known(counting)


@pytest.mark.parametrize("lands", [True, False])
def test_the_transaction_of_what_was_voided_unasked_ends_and_holds_up_nothing(counting, lands):
    payment = counting.pay_and_send()
    row = transaction_of(payment)
    make_void(counting, payment.escrow_id)
    search(counting)
    assert counting.confirm() == 0
    if lands:
        counting.chain.include(row, failure="Reverted: AlreadyUsed")
    else:
        counting.pass_deadline(payment)

    assert [counting.confirm(), counting.confirm()] == [1, 0]

    assert state_of(payment) == (S.REPLACED if lands else S.EXPIRED)
    counting.tend()
    assert [one.nonce for one in counting.fillers()] == ([] if lands else [row.nonce])
    assert (status_of(payment), counting.returns().count()) == (PaymentStatus.FAILED, 1)
    check_agent(counting.agent.id)
    check_nonces(counting.chain.name)


def test_a_payment_that_was_given_back_and_is_void_later_is_nothing_new(counting):
    payment = counting.pay_and_send(now=utc_now() - TOO_OLD)
    counting.expire(payment)
    make_void(counting, payment.escrow_id)

    search(counting)

    assert counting.returns().count() == 1
    assert_all_known(counting)


def test_a_settled_payment_cannot_be_void(counting):
    payment = counting.pay_and_send()
    counting.chain.include(transaction_of(payment))
    counting.confirm()
    found = make_void(counting, payment.escrow_id)

    search(counting)

    assert_stopped_by(counting, found, f"{payment.pk} is settled.")
    assert (status_of(payment), counting.returns().count()) == (PaymentStatus.SETTLED, 0)


def test_an_id_that_nobody_knows_and_that_is_void_stops_signing(counting):
    found = make_void(counting, "0x" + "77" * 32)
    search(counting)
    assert_stopped_by(counting, found, "It is neither a payment nor a withdrawal of ours.")


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
    assert "peek_escrow" not in scene.chain.asked
    assert DepositCursor.objects.get(chain=scene.chain.name).complete_at is None
    scene.chain.contradicted = set()
    search(scene)
    assert DepositCursor.objects.get(chain=scene.chain.name).complete_at is not None


# --- On the chain -----------------------------------------------------------------------------------------------------
def forge(payment: Payment) -> str:
    """Land a payment as whoever has the relayer's key, and no other, can: by another signature, under another id."""
    sent = VersionedTransaction.from_bytes(bytes(transaction_of(payment).raw))
    relayer, message = relayer_keypair(settings.RELAYER_SEED, 0), bytes(sent.message)
    other = Signature(sign_otherwise(bytes(relayer.secret()), bytes(relayer.pubkey()), message))
    assert other.verify(relayer.pubkey(), message)
    forged = VersionedTransaction.populate(sent.message, [other, sent.signatures[1]])
    SOLANA.rpc(
        "sendTransaction", base64.b64encode(bytes(forged)).decode(), {"encoding": "base64", "skipPreflight": True}
    )
    deadline = time.monotonic() + PATIENCE_S
    while SOLANA.find_block(str(other)) is None:
        assert time.monotonic() < deadline, "no block takes it"
        SOLANA.mine()
    return str(other)


def has_paid(localnet: Localnet, payment: Payment) -> bool:
    """Tell whether a payment is settled and its payee has its money once, however long one waits."""
    for _ in range(3):
        localnet.drain()
        localnet.mine()
        localnet.observe()
    is_settled = status_of(payment) == PaymentStatus.SETTLED
    return is_settled and has(localnet, payment) == int(payment.amount.scaleb(Asset(payment.asset).decimals))


@on_solana
@pytest.mark.parametrize("asset", [Asset.SOL, Asset.USDC, Asset.PYUSD])
def test_a_stolen_relayer_key_alone_does_not_let_a_payment_be_paid_twice(real, localnet, asset):
    payment = real("1.25", asset=asset)

    other = forge(payment)
    localnet.send()
    let_expire(payment)

    assert has_paid(localnet, payment)
    ours, theirs = transactions_of(payment)
    assert (ours.state, theirs.state, theirs.tx) == (S.REPLACED, S.FINAL, other)


@on_solana
def test_a_restored_database_does_not_pay_again_what_was_signed_after_its_backup(real, localnet):
    payment = real("0.75")
    localnet.send()
    searched = DepositCursor.objects.get(chain=localnet.caip2).block_number
    let_expire(payment)
    assert localnet.follow() == 1
    old, new = transactions_of(payment)
    localnet.include(payment)

    # As it was before it was signed again.
    with transaction.atomic():
        tamper("DELETE FROM payments_transition WHERE settlement_id IN (%s, %s)", old.pk, new.pk)
        tamper("DELETE FROM payments_settlement WHERE tx = %s", new.pk)
    Settlement.objects.filter(pk=old.pk).update(state=S.BROADCAST)
    an_hour_ago = utc_now() - timedelta(hours=1)
    DepositCursor.objects.filter(chain=localnet.caip2).update(block_number=searched, moved_at=an_hour_ago)

    assert has_paid(localnet, payment)
    assert [(one.tx, one.state) for one in transactions_of(payment)] == [(old.tx, S.REPLACED), (new.tx, S.FINAL)]
