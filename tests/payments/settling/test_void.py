"""A payment that lost its transaction is voided in the escrow, once, and then given back."""

import pytest

from chains.port import VoidEvent
from payments.lifecycle import SettlementState
from payments.models import Payment
from payments.settling import unpaid
from policy.models import Agent
from tests.support.invariants import check_agent, check_nonces
from tests.support.scenes import row_of, transaction_of, transactions_of, void_of
from tests.support.unpaid_payments import has_lost_its_nonce, has_reverted, is_given_back, tend, voids_of

S = SettlementState


@pytest.fixture
def has_nonces() -> bool:
    """Without nonces, no escrow counts payments: see test_renewal and test_expiry."""
    return True


@pytest.mark.parametrize("lose", [has_reverted, has_lost_its_nonce])
def test_a_lost_payment_gets_a_transaction_that_voids_it(scene, lose):
    payment = lose(scene)
    before = scene.relayer().next_nonce

    assert tend(scene) == 0

    (void,) = voids_of(payment)
    assert (void.state, void.nonce, void.relayer, void.valid_until) == (S.SIGNED, before, scene.relayer(), None)
    assert (void.chain, void.is_void, row_of(void).pays) == (scene.chain.name, True, False)
    assert scene.relayer().next_nonce == before + 1
    assert not is_given_back(scene, payment)
    assert transactions_of(payment) == [transaction_of(payment)]
    assert scene.broadcast() == 1
    assert scene.chain.sent[-1] == bytes(void.raw)
    check_agent(scene.agent.id)
    check_nonces(scene.chain.name)


def test_what_was_signed_for_an_earlier_escrow_is_not_voided_in_the_one_in_use(scene):
    """The earlier one takes the payment until its deadline, whatever this one says of its id."""
    payment = has_lost_its_nonce(scene)
    scene.chain.spends_from_escrow = lambda raw: raw != bytes(transaction_of(payment).raw)

    assert tend(scene) == 0
    assert voids_of(payment) == []
    assert not is_given_back(scene, payment)

    scene.pass_deadline(payment)
    assert tend(scene) == 1
    assert is_given_back(scene, payment)
    check_agent(scene.agent.id)


def test_a_voided_payment_is_given_back_once_its_void_is_final_and_not_before(scene):
    payment = has_reverted(scene)
    scene.confirm()
    scene.broadcast()
    scene.chain.include(void_of(payment), is_final=False)
    for _ in range(2):
        scene.confirm()
        assert not is_given_back(scene, payment)
    assert void_of(payment).state == S.INCLUDED

    scene.chain.finalise(scene.chain.finality.block_number + 1)
    scene.confirm()
    scene.confirm()

    assert is_given_back(scene, payment)
    assert [void.state for void in voids_of(payment)] == [S.FINAL]
    assert Payment.objects.get(pk=payment.pk).failure_reason == "Reverted: EnforcedPause"
    assert scene.events() == ["payment.approved", "payment.failed"]
    check_agent(scene.agent.id)
    check_nonces(scene.chain.name)


def test_a_void_whose_block_vanishes_is_sent_again(scene):
    payment = has_reverted(scene)
    scene.confirm()
    scene.broadcast()
    void = void_of(payment)
    scene.chain.include(void, is_final=False)
    scene.confirm()
    scene.chain.vanish(void)
    scene.confirm()
    assert not is_given_back(scene, payment)

    scene.broadcast()
    assert scene.chain.sent.count(bytes(void.raw)) == 2
    scene.chain.include(void)
    scene.confirm()

    assert is_given_back(scene, payment)


@pytest.mark.parametrize("lands", [0, 1], ids=["the older", "the newer"])
def test_a_void_that_is_stuck_gets_a_higher_fee_and_whichever_lands_gives_back_once(scene, lands):
    payment = has_reverted(scene)
    scene.confirm()
    scene.broadcast()
    scene.bump()
    voids = voids_of(payment)
    assert [(void.state, void.nonce) for void in voids] == [(S.REPLACED, 1), (S.BROADCAST, 1)]

    scene.chain.include(voids[lands])
    scene.confirm()
    scene.confirm()

    assert is_given_back(scene, payment)
    assert [void.state for void in voids_of(payment)] == [S.FINAL if n == lands else S.REPLACED for n in range(2)]
    check_agent(scene.agent.id)
    check_nonces(scene.chain.name)


def test_a_void_is_not_shown_as_a_transaction_of_its_payment(scene, api):
    payment = has_reverted(scene)
    scene.confirm()
    shown = api.get(f"/v1/payments/{payment.pk}").json()
    assert [one["tx"] for one in shown["transactions"]] == [transaction_of(payment).tx]
    assert (shown["tx"], shown["finalTx"], shown["status"]) == (transaction_of(payment).tx, None, "approved")
    scene.void(payment)
    shown = api.get(f"/v1/payments/{payment.pk}").json()
    assert [one["tx"] for one in shown["transactions"]] == [transaction_of(payment).tx]
    assert (shown["finalTx"], shown["status"]) == (None, "failed")


def test_a_void_that_loses_its_nonce_is_followed_by_another_one(scene):
    payment = has_reverted(scene)
    scene.confirm()
    scene.broadcast()
    scene.use_elsewhere(void_of(payment))

    scene.confirm()

    assert [(void.state, void.nonce) for void in voids_of(payment)] == [(S.REPLACED, 1), (S.SIGNED, 2)]
    assert not is_given_back(scene, payment)
    scene.void(payment)
    assert is_given_back(scene, payment)
    check_agent(scene.agent.id)
    check_nonces(scene.chain.name)


def test_a_void_that_reverts_is_not_tried_again_and_its_payment_waits_for_its_deadline(scene):
    payment = has_reverted(scene)
    scene.confirm()
    scene.broadcast()
    scene.chain.include(void_of(payment), failure="Reverted: EnforcedPause")

    for _ in range(3):
        scene.confirm()
        scene.tend()
    (void,) = voids_of(payment)
    assert (void.state, void.reason) == (S.FAILED, "Reverted: EnforcedPause")
    scene.reach_deadline(payment)
    scene.confirm()
    assert not is_given_back(scene, payment)
    scene.pass_deadline(payment)
    scene.confirm()

    assert is_given_back(scene, payment)
    assert len(voids_of(payment)) == 1
    assert not scene.fillers()
    check_agent(scene.agent.id)
    check_nonces(scene.chain.name)


def test_a_void_that_one_node_alone_sees_reverted_is_still_waited_for(scene):
    payment = has_reverted(scene)
    scene.confirm()
    scene.broadcast()
    used = dict(scene.chain.final_nonces)
    scene.chain.include(void_of(payment), failure="Reverted.")
    scene.chain.final_nonces = used

    scene.confirm()

    assert [void.state for void in voids_of(payment)] == [S.BROADCAST]
    assert not is_given_back(scene, payment)
    scene.chain.include(void_of(payment))  # the others have it in the same block, and it did what it was made for
    number = scene.chain.finality.block_number + 1
    scene.chain.voids.append(VoidEvent(void_of(payment).tx, 0, number, payment.escrow_id))
    scene.chain.finalise(number)
    scene.confirm()
    assert [void.state for void in voids_of(payment)] == [S.FINAL]
    assert is_given_back(scene, payment)


def test_what_is_void_already_is_not_void_again_and_its_void_says_so(scene):
    """Past its deadline it was given back; its void lands later, and changes nothing."""
    payment = has_reverted(scene)
    scene.confirm()
    scene.broadcast()
    scene.pass_deadline(payment)
    scene.confirm()
    assert is_given_back(scene, payment)
    assert void_of(payment).state == S.BROADCAST

    scene.chain.include(void_of(payment))
    scene.confirm()
    scene.confirm()

    assert is_given_back(scene, payment)
    assert void_of(payment).state == S.FINAL
    assert scene.stopped_reason() == ""
    check_agent(scene.agent.id)
    check_nonces(scene.chain.name)


def test_many_lost_payments_are_each_void_once(scene, monkeypatch):
    monkeypatch.setattr(unpaid, "BATCH_SIZE", 4)
    payments = [scene.pay_and_send() for _ in range(10)]
    for payment in payments:
        scene.chain.include(transaction_of(payment), failure="Reverted.")
    for _ in range(4):
        scene.confirm()
        scene.broadcast()
        for payment in payments:
            if voids_of(payment):
                scene.chain.include(void_of(payment))
    scene.confirm()

    assert all(is_given_back(scene, payment) for payment in payments)
    assert {len(voids_of(payment)) for payment in payments} == {1}
    assert Agent.objects.get(pk=scene.agent.pk).balance == 1000
    check_agent(scene.agent.id)
    check_nonces(scene.chain.name)
