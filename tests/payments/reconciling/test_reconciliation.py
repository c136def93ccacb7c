"""What the escrows hold is compared with what the ledger says; what is missing raises an alarm and stops the chain."""

import logging
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db.models import F

from allowance.kernel.assets import Asset
from allowance.kernel.errors import PolicySignerUnavailable
from allowance.kernel.times import utc_now
from chains.port import ChainUnavailable, Finality
from ledger.operations import adjust_balance, fund_agent, withdraw_funds
from payments.funding.expected_holdings import find_imbalances
from payments.models import DepositCursor, Outflow, Payment, Reconciliation, Settlement, Withdrawal
from payments.reconciling import settled_payments
from payments.reconciling.escrow_history import search_history
from payments.reconciling.outflow_booking import book_outflow
from payments.reconciling.reconciliation import check_balances, reconcile
from payments.settling.chain_switch import start_signing_on, stop_signing_on
from payments.settling.transitions import fail
from policy.models import Agent
from tests.support.chains import VALIDITY_BLOCKS
from tests.support.deposits import sighting
from tests.support.factories import make_agent
from tests.support.reconciliations import EscrowScene, served
from tests.support.scenes import transaction_of

LONG_AGO = timedelta(hours=1)


@pytest.fixture
def scene(db: None, has_nonces: bool) -> EscrowScene:
    """1000 USDC booked and held on a chain of either kind; rolled back."""
    return EscrowScene(has_nonces=has_nonces)


def numbers(row: Reconciliation) -> tuple[Any, ...]:
    return row.booked, row.in_flight, row.drift


# --- Drift ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("holds", "drift", "verdict"),
    [("999.999999", "-0.000001", "missing"), ("1000", "0", "ok"), ("1000.000001", "0.000001", "surplus")],
)
def test_what_is_being_paid_is_still_there(scene, holds, drift, verdict):
    scene.pay("10")
    scene.hold(holds)

    row = scene.reconcile()

    assert numbers(row) == (1000, 10, Decimal(drift))
    assert (row.verdict, row.missing) == (verdict, max(Decimal(0), -Decimal(drift)))


@pytest.mark.parametrize(("holds", "drift"), [("989.999999", "-0.000001"), ("990", "0"), ("990.000001", "0.000001")])
def test_a_settled_payment_is_no_longer_in_the_escrow(scene, holds, drift):
    scene.settle("10")
    scene.hold(holds)

    assert numbers(scene.reconcile()) == (990, 0, Decimal(drift))


def test_a_payment_settled_in_a_later_block_is_still_in_flight(scene):
    scene.settle("10")
    scene.settle("5")
    cursor = DepositCursor.objects.filter(chain=scene.chain.name)
    cursor.update(block_number=scene.chain.finality.block_number - 1)
    scene.hold("990")

    assert numbers(scene.reconcile()) == (990, 5, 0)

    scene.search()
    scene.hold("985")
    assert numbers(scene.reconcile()) == (985, 0, 0)


def test_a_failed_payment_is_neither_in_flight_nor_paid(scene):
    assert fail(scene.pay_and_send("10"), reason="Void in the escrow.") == 1

    assert numbers(scene.reconcile()) == (1000, 0, 0)


def test_deposits_up_to_the_block_are_booked_whether_they_are_credited_or_kept_aside(scene):
    final = scene.chain.finality.block_number
    scene.chain.deposits += [
        sighting(scene.agent, "5", block_number=final + 1),
        sighting("nobody", "7", block_number=final + 1),
        sighting("nobody", "11", block_number=final + 1, asset=None),
        sighting(scene.agent, "13", block_number=final + 2),
    ]
    scene.chain.finalise(final + 2)
    search_history(scene.chain.name, scene.chain)
    scene.chain.finality = Finality(final + 1, scene.chain.finality.time, final + 3)
    scene.hold("1012")

    assert numbers(scene.reconcile()) == (1012, 0, 0)


def test_what_was_moved_by_hand_counts_at_once(scene):
    withdraw_funds(scene.agent.id, amount=Decimal(100), by="test", reason="Paid out", chain=scene.chain.name)
    adjust_balance(scene.agent.id, amount=Decimal(-10), by="test", reason="Wrong", chain=scene.chain.name)
    adjust_balance(scene.agent.id, amount=Decimal(3), by="test", reason="Found", chain=scene.chain.name)

    assert scene.reconcile().booked == 893


def test_what_left_otherwise_is_gone_and_counts_once_when_it_is_booked(scene, agent):
    final = scene.block
    for number, block in enumerate((final, final, final + 1)):
        scene.lose("10", block_number=block, log_index=number)
    scene.hold("980")
    assert numbers(scene.reconcile()) == (980, 0, 0)

    first, second = Outflow.objects.filter(chain=scene.chain.name, block_number=final)
    book_outflow(first.pk, by="fiona", reason="Known to the backup", agent_id=scene.agent.id)
    book_outflow(second.pk, by="fiona", reason="A theft", agent_id=None)

    assert numbers(scene.reconcile()) == (980, 0, 0)


@pytest.mark.parametrize(("has_other", "booked"), [(False, 5), (True, 0)])
def test_an_earlier_movement_without_a_chain_belongs_to_the_only_one_that_has_the_asset(
    scene, settings, has_other, booked
):
    agent = make_agent(asset=Asset.EURC, balance="0")
    scene.chain.holdings = {Asset.EURC: Decimal(0)}
    settings.CHAINS = served(scene.chain.name, *["another"] * has_other, asset=Asset.EURC)
    (before,) = reconcile(scene.chain.name, scene.chain)
    fund_agent(agent.id, amount=Decimal(5), by="test")

    (after,) = reconcile(scene.chain.name, scene.chain)

    assert after.booked - before.booked == booked


def test_what_we_moved_into_the_escrow_ourselves_is_no_deposit(scene):
    scene.chain.deposits.append(sighting("wdr_1", "7", block_number=scene.block + 1))
    scene.chain.finalise(scene.block + 1)
    search_history(scene.chain.name, scene.chain)
    assert scene.reconcile().booked == 1007

    Withdrawal.objects.create(
        reference="wdr_1", chain=scene.chain.name, escrow="earlier", asset=Asset.USDC, amount=Decimal(7),
        recipient="this", author="test", reason="R", created_at=utc_now(),
    )  # fmt: skip
    assert scene.reconcile().booked == 1000


# --- When it cannot be told -------------------------------------------------------------------------------------------
def test_nothing_is_concluded_before_deposits_were_searched_for(scene):
    DepositCursor.objects.filter(chain=scene.chain.name).delete()

    assert reconcile(scene.chain.name, scene.chain) == []


def test_nothing_is_concluded_while_another_escrow_is_the_one_that_was_searched(scene):
    scene.chain.escrow = "new"
    DepositCursor.objects.filter(chain=scene.chain.name).update(escrow="old")

    assert reconcile(scene.chain.name, scene.chain) == []


@pytest.mark.parametrize(("behind", "is_compared"), [(0, True), (1, False)])
def test_nothing_is_concluded_while_the_search_for_deposits_is_far_behind(scene, behind, is_compared):
    scene.chain.finalise(scene.chain.finality.block_number + scene.chain.most_blocks_behind + behind)

    assert bool(reconcile(scene.chain.name, scene.chain)) == is_compared


def test_nothing_is_concluded_as_of_an_older_block_than_before(scene):
    scene.next_block()
    scene.reconcile()
    scene.chain.finality = replace(scene.chain.finality, block_number=scene.chain.finality.block_number - 1)

    assert reconcile(scene.chain.name, scene.chain) == []


def test_nothing_is_concluded_from_a_chain_that_is_away(scene):
    scene.chain.is_away = True

    with pytest.raises(ChainUnavailable):
        reconcile(scene.chain.name, scene.chain)
    assert not Reconciliation.objects.filter(chain=scene.chain.name).exists()


# --- The alarm --------------------------------------------------------------------------------------------------------
def test_missing_money_raises_an_alarm_at_once_and_stops_signing_at_the_second_block_in_a_row(scene, caplog):
    scene.hold("999")
    with caplog.at_level(logging.ERROR):
        scene.reconcile()
    assert "1.00 USDC" in caplog.text
    assert scene.state.stopped_reason == ""

    scene.next_block()
    scene.reconcile()

    assert "1.00 USDC less" in scene.state.stopped_reason
    assert scene.state.stopped_at is not None
    with pytest.raises(PolicySignerUnavailable):
        scene.pay()


def test_a_second_look_at_the_same_block_stops_nothing(scene):
    scene.hold("999")
    scene.reconcile()
    scene.reconcile()

    assert scene.state.stopped_reason == ""
    assert Reconciliation.objects.filter(chain=scene.chain.name).count() == 1


def test_money_that_is_there_again_in_between_stops_nothing(scene):
    for holds in ("999", "1000", "999"):
        scene.hold(holds)
        scene.reconcile()
        scene.next_block()

    assert scene.state.stopped_reason == ""


@pytest.mark.parametrize(("holds", "is_stopped"), [("995.01", False), ("995", False), ("994.99", True)])
def test_signing_stops_if_more_than_the_threshold_is_missing(scene, settings, holds, is_stopped):
    settings.RECONCILE_STOP_ABOVE = Decimal(5)
    scene.hold(holds)
    scene.reconcile()
    scene.next_block()

    assert scene.reconcile().verdict == "missing"
    assert (scene.state.stopped_reason != "") == is_stopped


def test_a_surplus_stops_nothing_and_is_no_alarm(scene, caplog):
    scene.hold("1000000")
    with caplog.at_level(logging.WARNING):
        scene.reconcile()
        scene.next_block()
        scene.reconcile()

    assert scene.state.stopped_reason == ""
    assert caplog.text == ""


def test_a_person_starts_signing_again(scene):
    stop_signing_on(scene.chain.name, reason="First")
    stop_signing_on(scene.chain.name, reason="Second")
    assert scene.state.stopped_reason == "First"

    start_signing_on(scene.chain.name)

    assert (scene.state.stopped_reason, scene.state.stopped_at) == ("", None)
    assert scene.pay().status == "approved"


# --- What is kept -----------------------------------------------------------------------------------------------------
def test_of_a_days_comparisons_that_say_the_same_the_last_one_is_kept(scene):
    rows = Reconciliation.objects.filter(chain=scene.chain.name)
    scene.reconcile()
    scene.next_block()
    last = scene.reconcile()
    assert [row.block_number for row in rows] == [last.block_number]

    rows.update(created_at=F("created_at") - timedelta(days=1))
    scene.reconcile()
    scene.hold("1001")
    scene.reconcile()
    assert [row.verdict for row in rows] == ["surplus", "ok", "ok"]


def test_every_comparison_that_found_money_missing_is_kept(scene):
    scene.hold("999")
    for _ in range(3):
        scene.reconcile()
        scene.next_block()

    assert Reconciliation.objects.filter(chain=scene.chain.name, drift__lt=0).count() == 3


# --- Settled payments -------------------------------------------------------------------------------------------------
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
        def find_proofs(self, sought: Any, finality: Any) -> Any:
            if any(one.order.escrow_id == doubtful.escrow_id for one in sought):
                raise ChainUnavailable("It is too long ago.")
            return super().find_proofs(sought, finality)

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
    Settlement.objects.filter(payment=payment).update(state="replaced")


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
    Settlement.objects.filter(payment=payment).update(state="final")
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


# --- The ledger's own sums --------------------------------------------------------------------------------------------
def imbalance(asset: Asset = Asset.USDC) -> Decimal:
    return sum((one.balances - one.explained for one in find_imbalances() if one.asset == asset), Decimal(0))


def test_balances_are_explained_by_what_came_in_and_what_was_spent(scene, caplog):
    before = imbalance()
    scene.settle("5")
    fail(scene.pay_and_send("3"), reason="Void in the escrow.")
    scene.pay("10")
    withdraw_funds(scene.agent.id, amount=Decimal(7), by="test", reason="Paid out", chain=scene.chain.name)
    final = scene.chain.finality.block_number
    scene.chain.deposits += [sighting(name, "5", block_number=final + 1) for name in (scene.agent, "nobody")]
    scene.chain.finalise(final + 1)
    scene.search()
    DepositCursor.objects.filter(chain=scene.chain.name).update(block_number=final)
    search_history(scene.chain.name, scene.chain)
    assert imbalance() == before

    Agent.objects.filter(pk=scene.agent.pk).update(balance=F("balance") + Decimal("0.000001"))

    assert imbalance() == before + Decimal("0.000001")
    with caplog.at_level(logging.ERROR):
        assert Asset.USDC in {one.asset for one in check_balances()}
    assert "USDC" in caplog.text
