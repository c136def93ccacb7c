"""Where all of a transaction are paid or none, as on Solana, one payment that spoils it keeps no other waiting."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import pytest

from chains.port import ChainUnavailable, SignedTransaction, TransactionPlan
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Payment
from tests.support.invariants import check_agent
from tests.support.scenes import Scene, states_of, status_of, transaction_of, transactions_of
from tests.support.together import pay_together

S = SettlementState
APPROVED = PaymentStatus.APPROVED


@pytest.fixture
def scene(db: None) -> Scene:
    return Scene(has_nonces=False)


def test_those_that_one_of_them_spoilt_are_each_signed_alone(scene):
    payments = pay_together(scene)
    scene.chain.include(transaction_of(payments[0]), failure="Failed: account is frozen")
    scene.pass_deadline(payments[0])
    scene.observe()
    scene.confirm()

    assert [states_of(one) for one in payments] == [[S.FAILED, S.SIGNED]] * 3
    assert len({transaction_of(one).tx for one in payments}) == 3
    for one in payments:
        check_agent(one.agent_id)


@contextmanager
def unprepared(scene: Scene, payment: Payment) -> Iterator[None]:
    """Let no transaction be signed that pays this one."""
    prepare = scene.chain.prepare

    def refuse_one(plan: TransactionPlan, now: datetime) -> SignedTransaction:
        if any(order.escrow_id == payment.escrow_id for order in plan.orders):
            raise ChainUnavailable("It cannot be prepared now.")
        return prepare(plan, now)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scene.chain, "prepare", refuse_one)
        yield


def test_the_last_of_those_that_another_one_spoilt_is_signed_alone_too(scene):
    payments = pay_together(scene)
    scene.chain.include(transaction_of(payments[0]), failure="Failed: account is frozen")
    scene.pass_deadline(payments[0])
    scene.observe()
    with unprepared(scene, payments[1]):
        scene.confirm()
    assert [states_of(one)[-1] for one in payments] == [S.SIGNED, S.BROADCAST, S.SIGNED]

    scene.confirm()

    assert [status_of(one) for one in payments] == [APPROVED] * 3
    assert [states_of(one) for one in payments] == [[S.FAILED, S.SIGNED]] * 3


def test_one_that_cannot_be_signed_anew_keeps_nobody_waiting(scene):
    payments = pay_together(scene)

    scene.pass_deadline(payments[0])
    with unprepared(scene, payments[1]):
        scene.confirm()
    assert states_of(payments[1]) == [S.BROADCAST]
    assert [transactions_of(one)[-1].state for one in (payments[0], payments[2])] == [S.SIGNED] * 2

    scene.confirm()
    assert states_of(payments[1]) == [S.EXPIRED, S.SIGNED]
    for one in payments:
        check_agent(one.agent_id)
