"""What the escrows hold is compared with what the ledger says; what is missing raises an alarm and stops the chain."""

import logging
from dataclasses import replace
from decimal import Decimal

import pytest
from django.db.models import F

from chains.port import ChainUnavailable, Finality
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from ledger.operations import adjust_balance, fund_agent, withdraw_funds
from payments.funding.expected_holdings import find_imbalances
from payments.models import DepositCursor, Outflow, Reconciliation, Withdrawal
from payments.reconciling.escrow_history import search_history
from payments.reconciling.outflow_booking import book_outflow
from payments.reconciling.reconciliation import check_balances, reconcile
from payments.settling.transitions import fail
from policy.models import Agent
from tests.support.deposits import sighting
from tests.support.factories import make_agent
from tests.support.reconciliations import EscrowScene, numbers, served


@pytest.fixture
def scene(db: None, has_nonces: bool) -> EscrowScene:
    """1000 USDC booked and held on a chain of either kind; rolled back."""
    return EscrowScene(has_nonces=has_nonces)


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
    scene.chain.address = "new"
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
