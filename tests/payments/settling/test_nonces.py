"""Nonces: sent in their order, never more in line than nodes keep; what it means that another used one.

Only chains whose accounts have nonces have lines.
"""

import json

import pytest
from django.conf import settings
from django.db import transaction

from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Payment, Relayer, Settlement
from tests.support.factories import new_name
from tests.support.invariants import check_agent
from tests.support.scenes import Scene, at_once, state_of, status_of, transaction_of
from tests.support.scripted_chain import outflow_of
from tests.support.unpaid_payments import void_exists

S = SettlementState
LINE = settings.MAX_IN_FLIGHT_PER_RELAYER


@pytest.fixture
def scene(db: None) -> Scene:
    """An agent, a payee and a chain with nonces and one relayer; rolled back."""
    return Scene()


def nonces_sent(scene: Scene) -> list[tuple[int, int]]:
    """List what was sent, as relayer and nonce."""
    return [tuple(json.loads(raw)[2:4]) for raw in scene.chain.sent]


# --- In order ---------------------------------------------------------------------------------------------------------
def test_each_relayers_transactions_are_sent_in_the_order_of_their_nonces(db):
    scene = Scene(relayers=3)
    for _ in range(12):
        scene.pay()

    scene.broadcast()

    for number in range(3):
        nonces = [nonce for relayer, nonce in nonces_sent(scene) if relayer == number]
        assert nonces == list(range(scene.relayer(number).next_nonce or 0))


@pytest.mark.usefixtures("committed")
def test_a_payment_in_the_making_does_not_keep_earlier_ones_of_its_relayer_from_being_sent():
    scene = Scene(relayers=1)
    scene.pay()

    with transaction.atomic():
        Relayer.objects.select_for_update().get(chain=scene.chain.name)
        (sent,) = at_once([scene.broadcast])

    assert sent == 1


# --- The line ---------------------------------------------------------------------------------------------------------
def test_no_more_wait_for_a_block_than_nodes_keep_of_one_sender(scene):
    for _ in range(LINE + 3):
        scene.pay()

    assert [scene.broadcast(), scene.broadcast()] == [LINE, 0]

    assert [nonce for _, nonce in nonces_sent(scene)] == list(range(LINE))
    assert Settlement.objects.filter(chain=scene.chain.name, state=S.SIGNED, offered_at=None).count() == 3


def test_the_next_ones_go_when_earlier_ones_are_in_a_block(scene):
    payments = [scene.pay() for _ in range(LINE + 3)]
    scene.broadcast()
    for payment in payments[:2]:
        scene.chain.include(transaction_of(payment), is_final=False)

    scene.confirm()
    assert scene.broadcast() == 2

    assert [nonce for _, nonce in nonces_sent(scene)] == list(range(LINE + 2))


def test_one_in_the_middle_that_is_in_a_block_makes_no_room(scene):
    payments = [scene.pay() for _ in range(LINE + 3)]
    scene.broadcast()
    scene.chain.include(transaction_of(payments[5]), is_final=False)
    scene.confirm()

    assert scene.broadcast() == 0


def test_a_long_line_of_one_relayer_holds_up_no_other(db):
    scene = Scene(relayers=2)
    Relayer.objects.filter(pk=scene.relayer(1).pk).update(is_enabled=False)
    for _ in range(LINE + 5):
        scene.pay()
    scene.broadcast()
    Relayer.objects.filter(chain=scene.chain.name).update(is_enabled=True)
    Relayer.objects.filter(pk=scene.relayer(0).pk).update(is_enabled=False)
    scene.pay()

    assert scene.broadcast() == 1
    assert nonces_sent(scene)[-1] == (1, 0)


def test_how_many_may_wait_is_configurable(scene, settings):
    settings.MAX_IN_FLIGHT_PER_RELAYER = 2
    for _ in range(3):
        scene.pay()
    assert scene.broadcast() == 2


# --- A nonce that another one used ------------------------------------------------------------------------------------
def test_a_transaction_whose_nonce_another_one_used_fails_with_proof(scene):
    payment = scene.pay_and_send()
    scene.use_elsewhere(transaction_of(payment))

    assert [scene.confirm(), scene.confirm()] == [1, 0]
    # Whoever used it may have our signed payment as well, under a nonce of another relayer.
    assert (state_of(payment), status_of(payment)) == (S.FAILED, PaymentStatus.APPROVED)
    assert not scene.returns().exists()
    scene.void(payment)

    assert (state_of(payment), status_of(payment)) == (S.FAILED, PaymentStatus.FAILED)
    assert Payment.objects.get(pk=payment.pk).failure_reason == "Its nonce was used by another transaction."
    assert scene.returns().count() == 1
    check_agent(scene.agent.id)


@pytest.mark.parametrize("doubt", ["not final", "no answer"])
def test_a_transaction_whose_nonce_seems_to_be_used_fails_nothing(scene, doubt):
    payment = scene.pay_and_send()
    scene.use_elsewhere(transaction_of(payment))
    if doubt == "not final":
        scene.chain.final_nonces.clear()
    scene.chain.lags = doubt == "no answer"

    assert scene.confirm() == 0

    assert (state_of(payment), status_of(payment)) == (S.BROADCAST, PaymentStatus.APPROVED)
    assert not scene.returns().exists()


def test_a_revert_in_which_one_node_stands_alone_fails_nothing(scene):
    """A node that lies shows a reverted receipt; as far as the others know, the nonce is still to be used."""
    payment = scene.pay_and_send()
    row = transaction_of(payment)
    scene.chain.include(row, failure="Reverted.")
    scene.chain.final_nonces.clear()

    assert scene.confirm() == 0

    assert status_of(payment) == PaymentStatus.APPROVED
    scene.chain.include(row)
    assert scene.confirm() == 1
    assert status_of(payment) == PaymentStatus.SETTLED


@pytest.mark.parametrize("is_told_by", ["itself", "another"])
def test_what_the_escrow_counts_as_paid_is_settled_by_its_history_whatever_a_receipt_says(scene, is_told_by):
    """A node that lies; or a token that keeps a fee, whose transfer is not the exact amount."""
    payment = scene.pay_and_send()
    row = transaction_of(payment)
    scene.chain.include(row, failure="The transaction succeeded without paying.")
    scene.chain.paid.add(payment.escrow_id)

    # A receipt and the escrow that contradict each other end nothing.
    assert [scene.confirm(), scene.confirm()] == [0, 0]
    assert (state_of(payment), status_of(payment)) == (S.BROADCAST, PaymentStatus.APPROVED)
    scene.chain.finalise(scene.chain.finality.block_number + 1)
    tx = row.tx if is_told_by == "itself" else new_name("tx")
    scene.chain.outflows.append(outflow_of(payment, tx, scene.chain.finality.block_number))
    scene.confirm()

    assert status_of(payment) == PaymentStatus.SETTLED
    assert Settlement.objects.get(payments=payment, state=S.FINAL).tx == tx
    assert not scene.returns().exists()
    assert not void_exists(payment)
    check_agent(scene.agent.id)
