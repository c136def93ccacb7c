"""A settled payment is asked of the chain once more, some time later."""

import logging
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from chains.port import ChainUnavailable
from foundation.kernel.times import utc_now
from payments.models import DepositCursor, Payment, Reconciliation, Settlement
from payments.reconciling import settled_payments
from tests.support.fake_chain import VALIDITY_BLOCKS
from tests.support.reconciliations import EscrowScene, numbers
from tests.support.scenes import transaction_of

LONG_AGO = timedelta(hours=1)


@pytest.fixture
def scene(db: None, has_nonces: bool) -> EscrowScene:
    """1000 USDC booked and held on a chain of either kind; rolled back."""
    return EscrowScene(has_nonces=has_nonces)


def test_a_settled_payment_is_checked_once_some_time_after_it_was_settled(scene):
    scene.settle(ago=LONG_AGO)
    scene.settle(ago=timedelta(minutes=1))
    scene.hold("998")

    assert [scene.reconcile().receipts_checked for _ in range(2)] == [1, 0]
    assert scene.reconcile(is_thorough=True).receipts_checked == 1


def test_a_thorough_check_that_cannot_finish_does_not_make_the_next_ones_begin_again(scene):
    scene.settle(ago=LONG_AGO)
    scene.hold("999")
    assert scene.reconcile().receipts_checked == 1
    scene.chain.lags = True
    scene.next_block()

    thorough = scene.reconcile(is_thorough=True)

    assert (thorough.receipts_checked, thorough.settled_total) == (0, 1)
    assert thorough.settled_until is not None


def test_a_doubtful_payment_that_nobody_can_tell_of_does_not_hold_up_the_others(scene):
    doubtful = scene.settle(ago=LONG_AGO)
    scene.settle(ago=LONG_AGO / 2)
    scene.hold("998")
    row = scene.reconcile()
    until = utc_now() - LONG_AGO * 3 / 4
    Reconciliation.objects.filter(pk=row.pk).update(
        unconfirmed=[doubtful.pk], settled_until=until, settled_total=Decimal(1)
    )

    class Forgetful(type(scene.chain)):  # type: ignore[misc]
        def find_fates(self, sought: Any, finality: Any) -> Any:
            if any(order.escrow_id == doubtful.escrow_id for one in sought for order in one.orders):
                raise ChainUnavailable("It is too long ago.")
            return super().find_fates(sought, finality)

    scene.chain.__class__ = Forgetful

    row = scene.reconcile()

    assert (row.receipts_checked, row.unconfirmed) == (1, [doubtful.pk])


def test_what_was_settled_long_ago_is_not_summed_up_again_unless_one_asks_for_it(scene):
    payment = scene.settle("10", ago=LONG_AGO)
    scene.hold("990")
    assert scene.reconcile().settled_total == 10
    Payment.objects.filter(pk=payment.pk).update(amount=Decimal(11))

    assert scene.reconcile().booked == 990
    assert scene.reconcile(is_thorough=True).booked == 989


def test_a_payment_in_a_later_block_is_carried_only_once_that_block_is_compared(scene):
    scene.settle("10", ago=LONG_AGO)
    scene.settle("5", ago=LONG_AGO + timedelta(minutes=1))
    DepositCursor.objects.filter(chain=scene.chain.name).update(block_number=scene.chain.finality.block_number - 1)
    scene.hold("990")
    assert (scene.reconcile().settled_total, scene.reconcile().verdict) == (0, "ok")

    scene.search()
    scene.hold("985")
    row = scene.reconcile()
    assert (row.settled_total, row.receipts_checked, row.verdict) == (15, 2, "ok")
    assert numbers(scene.reconcile()) == (985, 0, 0)


def deny(scene: EscrowScene, payment: Payment) -> None:
    scene.chain.paid.discard(payment.escrow_id)


def revert(scene: EscrowScene, payment: Payment) -> None:
    scene.chain.include(transaction_of(payment), failure="Reverted.")


def lose(scene: EscrowScene, payment: Payment) -> None:
    del scene.chain.blocks[transaction_of(payment).tx]
    # That it is nowhere proves nothing before it could not land any more.
    scene.chain.finalise(scene.chain.finality.block_number + VALIDITY_BLOCKS + 1)
    scene.search()


def forget(scene: EscrowScene, payment: Payment) -> None:
    Settlement.objects.filter(payments=payment).update(state="replaced")


@pytest.mark.parametrize("tamper", [deny, revert, lose, forget], ids=lambda one: one.__name__)
def test_a_settled_payment_that_the_chain_does_not_confirm_raises_an_alarm_until_it_does(scene, tamper, caplog):
    payment = scene.settle(ago=LONG_AGO)
    other = scene.settle(ago=LONG_AGO)
    scene.hold("998")
    before = transaction_of(payment)
    inclusion = scene.chain.blocks[before.tx]
    tamper(scene, payment)

    with caplog.at_level(logging.ERROR):
        assert scene.reconcile().unconfirmed == [payment.pk]
    assert payment.pk in caplog.text
    assert other.pk not in caplog.text
    assert scene.reconcile().unconfirmed == [payment.pk]
    assert scene.state.stopped_reason == ""

    scene.chain.paid.add(payment.escrow_id)
    scene.chain.blocks[before.tx] = inclusion
    Settlement.objects.filter(payments=payment).update(state="final")
    assert scene.reconcile().unconfirmed == []


def test_what_the_chain_cannot_tell_now_is_asked_again_and_is_no_alarm(scene):
    scene.settle(ago=LONG_AGO)
    scene.hold("999")
    scene.chain.lags = True
    row = scene.reconcile()
    assert (row.verdict, row.receipts_checked, row.unconfirmed, row.settled_until) == ("ok", 0, [], None)

    scene.chain.lags = False
    row = scene.reconcile()
    assert (row.verdict, row.receipts_checked, row.unconfirmed, row.settled_total) == ("ok", 1, [], 1)


def test_many_settled_payments_are_checked_page_by_page_however_many_share_a_moment(scene, monkeypatch):
    monkeypatch.setattr(settled_payments, "PAGE_SIZE", 2)
    monkeypatch.setattr("payments.reconciling.reconciliation.PAGES_PER_RUN", 1)
    moment = utc_now() - LONG_AGO
    for second in (0, 1, 1, 1, 2, 3, 4):
        payment = scene.settle()
        Payment.objects.filter(pk=payment.pk).update(settled_at=moment + timedelta(seconds=second))
    scene.hold("993")

    rows = [scene.reconcile() for _ in range(5)]

    assert {row.verdict for row in rows} == {"ok"}
    assert sum(row.receipts_checked for row in rows) == 7
    assert len([row for row in rows if row.receipts_checked]) > 1
    assert rows[-1].settled_total == 7
