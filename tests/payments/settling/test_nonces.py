"""Nonces: sent in their order, never more in line than nodes keep; what it means that another used one.

Only chains whose accounts have nonces have lines.
"""

import json
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import transaction

from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Outflow, Payment, Relayer, Settlement
from payments.settling import renewal
from tests.support.chains import outflow_of
from tests.support.factories import new_name
from tests.support.invariants import check_agent, check_nonces
from tests.support.scenes import (
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
    assert Settlement.objects.get(payment=payment, state=S.FINAL).tx == tx
    assert not scene.returns().exists()
    assert not void_exists(payment)
    check_agent(scene.agent.id)


def void_exists(payment: Payment) -> bool:
    return Settlement.objects.filter(payment=payment, is_void=True).exists()


# --- Past its deadline ------------------------------------------------------------------------------------------------
def test_a_transaction_in_a_block_expires_only_if_that_came_too_late(scene):
    payment = scene.pay_and_send()
    scene.chain.include(transaction_of(payment), is_final=False)

    scene.reach_deadline(payment)
    assert scene.confirm() == 0
    assert (state_of(payment), status_of(payment)) == (S.INCLUDED, PaymentStatus.APPROVED)

    # Its block is later than the final one, which is past the deadline: there the escrow refuses it.
    scene.pass_deadline(payment)
    assert scene.confirm() == 1
    assert (states_of(payment)[0], status_of(payment)) == (S.EXPIRED, PaymentStatus.APPROVED)
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("nothing_is_signed_anew")
def test_a_raised_transaction_expires_by_the_deadline_that_is_signed_in_it(scene):
    payment = scene.pay_and_send()
    deadline = transaction_of(payment).valid_until
    scene.bump()
    assert transaction_of(payment).valid_until == deadline

    scene.reach_deadline(payment)
    assert scene.confirm() == 0
    scene.expire(payment)

    assert states_of(payment) == [S.REPLACED, S.EXPIRED]
    assert scene.returns().count() == 1
    check_agent(scene.agent.id)


# --- When its payment goes on without it ------------------------------------------------------------------------------
@pytest.fixture
def nothing_is_signed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever has expired is given back."""
    monkeypatch.setattr(renewal, "WORTH_RENEWING", timedelta(0))


@pytest.mark.usefixtures("nothing_is_signed_anew")
def test_bytes_of_a_payment_that_was_given_back_may_land_and_give_nothing_back_again(scene):
    payment = scene.pay_and_send()
    scene.expire(payment)
    late = transaction_of(payment)
    scene.tend()
    (filler,) = scene.fillers()
    scene.broadcast()

    scene.chain.include(late, failure="Reverted: escrow: too late")
    assert [scene.confirm(), scene.confirm()] == [1, 0]

    assert state_of(payment) == S.EXPIRED
    assert transitions_of(filler)[-1] == ("broadcast", "replaced", f"{late.tx} was included in its place.")
    assert scene.returns().count() == 1
    assert scene.events() == ["payment.approved", "payment.failed"]
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("nothing_is_signed_anew")
def test_an_older_transaction_of_a_payment_that_was_given_back_ends_failed_when_it_lands(scene):
    payment = scene.pay_and_send()
    first = transaction_of(payment)
    scene.bump()
    scene.expire(payment)
    scene.tend()
    scene.broadcast()

    scene.chain.include(first, failure="Reverted: escrow: too late")
    assert [scene.confirm(), scene.confirm()] == [1, 0]

    assert states_of(payment) == [S.FAILED, S.EXPIRED]
    assert [row.state for row in scene.fillers()] == [S.REPLACED]
    assert scene.returns().count() == 1
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("nothing_is_signed_anew")
def test_a_payment_that_was_given_back_and_paid_all_the_same_is_shouted_about_and_changes_nothing(scene, caplog):
    payment = scene.pay_and_send()
    scene.expire(payment)
    scene.tend()
    scene.broadcast()

    scene.chain.include(transaction_of(payment))
    scene.confirm()
    scene.confirm()

    paid = Outflow.objects.get(chain=scene.chain.name)
    assert (paid.tx, paid.escrow_id, paid.amount) == (transaction_of(payment).tx, payment.escrow_id, payment.amount)
    assert paid.why == f"{payment.pk} was given back."
    assert payment.pk in scene.stopped_reason()
    shouts = [record.getMessage() for record in caplog.records if record.levelname == "CRITICAL"]
    assert len([shout for shout in shouts if "was given back" in shout and payment.pk in shout]) == len(shouts) == 3
    assert (status_of(payment), scene.returns().count()) == (PaymentStatus.FAILED, 1)
    check_agent(scene.agent.id)


def test_bytes_of_a_payment_that_was_signed_anew_may_land_and_revert_and_change_nothing(scene):
    payment = scene.pay_and_send()
    scene.expire(payment)
    late, new = transactions_of(payment)
    scene.tend()
    (filler,) = scene.fillers()
    scene.broadcast()

    scene.chain.include(late, failure="Reverted: escrow: too late")
    assert [scene.confirm(), scene.confirm()] == [1, 0]

    assert states_of(payment) == [S.EXPIRED, S.BROADCAST]
    assert transitions_of(filler)[-1] == ("broadcast", "replaced", f"{late.tx} was included in its place.")
    scene.chain.include(new)
    assert scene.confirm() == 1
    assert (states_of(payment), status_of(payment)) == ([S.EXPIRED, S.FINAL], PaymentStatus.SETTLED)
    check_agent(scene.agent.id)
    check_nonces(scene.chain.name)


def test_what_paid_before_it_was_signed_anew_counts_and_the_new_one_comes_to_nothing(scene):
    """All nodes had said that it was unpaid. The escrow pays an id once: the new one can only revert."""
    payment = scene.pay_and_send()
    scene.expire(payment)
    late, new = transactions_of(payment)
    scene.broadcast()

    scene.chain.include(late)
    scene.confirm()
    scene.chain.include(new, failure="Reverted: AlreadyUsed")
    scene.tend()
    scene.confirm()
    scene.confirm()

    assert status_of(payment) == PaymentStatus.SETTLED
    assert (states_of(payment)[0], scene.events().count("payment.settled")) == (S.FINAL, 1)
    assert states_of(payment)[1] in (S.REPLACED, S.FAILED)
    assert not void_exists(payment)
    check_agent(scene.agent.id)
    check_nonces(scene.chain.name)
