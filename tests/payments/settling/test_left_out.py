"""What a transaction of several payments goes on without is paid by another one, and keeps the rest from nothing."""

import pytest

from foundation.kernel.times import utc_now
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Leg, Payment, Settlement
from tests.support.invariants import check_agent, check_nonces
from tests.support.scenes import Scene, states_of, status_of, transaction_of
from tests.support.scripted_chain import outflow_of
from tests.support.together import pay_together

S = SettlementState


@pytest.fixture
def scene(db: None) -> Scene:
    """Agents, a payee and a chain with nonces; rolled back."""
    return Scene()


def submit_elsewhere(scene: Scene, payment: Payment) -> None:
    """Let a transaction of somebody else's pay one payment, in a final block, and notice."""
    block = scene.chain.finality.block_number + 1
    scene.chain.paid.add(payment.escrow_id)
    scene.chain.outflows.append(outflow_of(payment, "0xthief", block))
    scene.chain.finalise(block)
    scene.confirm()


def test_one_that_somebody_else_has_submitted_keeps_the_others_from_no_higher_fee(scene):
    payments = pay_together(scene)
    scene.broadcast()
    submit_elsewhere(scene, payments[1])

    scene.bump()

    assert states_of(payments[0]) == states_of(payments[2]) == [S.REPLACED, S.BROADCAST]
    left_out = Leg.objects.get(settlement=transaction_of(payments[0]).tx, payment=payments[1])
    assert (left_out.is_live, left_out.skipped) == (False, "0xthief has paid it.")
    scene.broadcast()
    scene.chain.include(transaction_of(payments[0]), skips={payments[1].escrow_id: "escrow: paid"})
    scene.confirm()
    assert [status_of(one) for one in payments] == [PaymentStatus.SETTLED] * 3
    for one in payments:
        check_agent(one.agent_id)
    check_nonces(scene.chain.name)


def test_a_replaced_one_that_lands_takes_nothing_from_the_one_that_somebody_else_has_submitted(scene):
    payments = pay_together(scene)
    scene.broadcast()
    late = transaction_of(payments[0])
    scene.bump()
    submit_elsewhere(scene, payments[1])

    for is_final in (False, True):
        scene.chain.include(late, skips={payments[1].escrow_id: "escrow: paid"}, is_final=is_final)
        scene.confirm()
        assert transaction_of(payments[1]).tx == "0xthief"
        assert Leg.objects.get(settlement="0xthief").is_live

    assert [states_of(one) for one in payments[::2]] == [[S.FINAL, S.REPLACED]] * 2
    assert [status_of(one) for one in payments] == [PaymentStatus.SETTLED] * 3
    for one in payments:
        check_agent(one.agent_id)
    check_nonces(scene.chain.name)


def settle_first(payments: list[Payment]) -> None:
    """End a transaction as a release does that knows its first payment only."""
    row = transaction_of(payments[0])
    Settlement.objects.filter(pk=row.pk).update(state=S.FINAL)
    Payment.objects.filter(pk=row.first_payment_id).update(status=PaymentStatus.SETTLED, settled_at=utc_now())


def test_those_that_a_release_has_not_settled_with_the_first_are_settled_by_the_history(scene):
    """A release that knows one payment of each transaction ends the transaction with that one."""
    payments = pay_together(scene)
    settle_first(payments)
    block = scene.chain.finality.block_number + 1
    for index, one in enumerate(payments):
        scene.chain.paid.add(one.escrow_id)
        scene.chain.outflows.append(outflow_of(one, transaction_of(one).tx, block, log_index=index))
    scene.chain.finalise(block)
    scene.confirm()

    assert [status_of(one) for one in payments] == [PaymentStatus.SETTLED] * 3
    assert scene.events().count("payment.settled") == 2
    for one in payments:
        check_agent(one.agent_id)
    check_nonces(scene.chain.name)


def test_one_that_somebody_else_has_submitted_is_settled_although_a_release_has_ended_its_transaction(scene):
    payments = pay_together(scene)
    settle_first(payments)
    other = next(one for one in payments if status_of(one) == PaymentStatus.APPROVED)

    submit_elsewhere(scene, other)

    assert status_of(other) == PaymentStatus.SETTLED
    assert transaction_of(other).tx == "0xthief"
    assert Leg.objects.get(payment=other, is_live=True).settlement_id == "0xthief"
    check_agent(other.agent_id)
