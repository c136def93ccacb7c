"""What is promised of an asset is compared with what all escrows hold; what is promised beyond that stops signing."""

import logging
from decimal import Decimal
from typing import Any

import pytest
from django.db.models import F

from foundation.kernel.assets import Asset
from foundation.kernel.errors import PolicySignerUnavailable
from foundation.kernel.times import utc_now
from ledger.operations import fund_agent
from payments.funding.pools import read_pool, read_pools
from payments.funding.withdrawals import book_withdrawal, cancel_withdrawal
from payments.models import ChainState, Reconciliation, Withdrawal
from payments.reconciling.escrow_history import search_history
from payments.settling.chain_switch import start_signing_on
from policy.models import Agent
from tests.support.deposits import sighting
from tests.support.factories import make_agent, new_address, new_name
from tests.support.fake_chain import make_fake_chain
from tests.support.reconciliations import EscrowScene, level, make_comparison, served


@pytest.fixture
def scene(db: None, settings: Any) -> EscrowScene:
    """1000 USDC booked, held and compared on one of two served chains; of all USDC just as much is promised as held."""
    scene = EscrowScene()
    make_comparison(scene.chain.name, holds=Decimal(1000), block_number=scene.block)
    level(settings, scene.chain.name)
    return scene


def surplus() -> Any:
    pool = read_pool(Asset.USDC)
    assert pool is not None
    return pool.surplus


def reason_on(chain: str) -> str:
    return ChainState.objects.get(pk=chain).stopped_reason


# --- The alarm --------------------------------------------------------------------------------------------------------
def test_what_is_promised_and_held_is_no_alarm(scene, caplog):
    with caplog.at_level(logging.ERROR):
        scene.reconcile()

    assert (surplus(), caplog.text, scene.state.stopped_reason) == (0, "", "")


def test_a_balance_that_is_raised_in_the_database_stops_every_chain_of_the_asset_in_the_next_run(
    scene, settings, caplog
):
    other, foreign = make_fake_chain(), make_fake_chain()
    settings.CHAINS |= served(other.name) | served(foreign.name, asset=Asset.EURC)
    stranger = make_agent(balance="0")
    Agent.objects.filter(pk=stranger.pk).update(balance=Decimal(1000))

    with caplog.at_level(logging.ERROR):
        scene.reconcile()

    for reason in (reason_on(scene.chain.name), reason_on(other.name), caplog.text):
        assert "USDC are promised and the escrows hold" in reason
        assert "1000.00 too much." in reason
    assert reason_on(foreign.name) == ""
    with pytest.raises(PolicySignerUnavailable):
        scene.pay()


def test_what_the_owner_takes_without_booking_it_stops_signing_at_once(scene):
    scene.lose("1")
    scene.hold("999")

    row = scene.reconcile()

    assert (row.verdict, row.booked) == ("ok", 999)  # it is known what left
    assert "1.00 too much." in scene.state.stopped_reason


def test_what_is_missing_on_one_chain_and_over_on_another_does_not_stop_at_once(scene, settings):
    level(settings, scene.chain.name, surplus="5")
    scene.hold("995")

    assert scene.reconcile().verdict == "missing"
    assert (surplus(), scene.state.stopped_reason) == (0, "")


@pytest.mark.parametrize(("taken", "is_stopped"), [("4.99", False), ("5", False), ("5.000001", True)])
def test_signing_stops_if_more_than_the_threshold_is_promised_beyond_the_holdings(
    scene, settings, caplog, taken, is_stopped
):
    settings.RECONCILE_STOP_ABOVE = Decimal(5)
    scene.lose(taken)
    scene.hold(str(1000 - Decimal(taken)))

    with caplog.at_level(logging.ERROR):
        scene.reconcile()

    assert "too much" in caplog.text
    assert (scene.state.stopped_reason != "") == is_stopped


def test_a_chain_that_is_started_while_too_much_is_promised_is_stopped_again(scene):
    Agent.objects.filter(pk=scene.agent.pk).update(balance=F("balance") + 1)
    scene.reconcile()
    start_signing_on(scene.chain.name, by="ann")

    scene.reconcile()

    assert "1.00 too much." in scene.state.stopped_reason


def test_a_chain_that_was_never_observed_is_not_in_the_way(scene, settings):
    ChainState.objects.filter(pk=list(settings.CHAINS)[-1]).delete()
    Agent.objects.filter(pk=scene.agent.pk).update(balance=F("balance") + 1)

    scene.reconcile()

    assert scene.state.stopped_reason != ""


# --- As of the blocks that were compared ------------------------------------------------------------------------------
def test_what_happens_after_the_blocks_that_were_compared_changes_nothing(scene):
    scene.reconcile()
    final = scene.block
    for name in (scene.agent, "nobody"):
        scene.chain.deposits.append(sighting(name, "5", block_number=final + 1))
    scene.chain.finalise(final + 1)
    search_history(scene.chain.name, scene.chain)
    scene.settle("10")
    scene.pay("3")
    assert surplus() == 0

    scene.hold("1000")
    assert (scene.reconcile().verdict, surplus()) == ("ok", 0)


def test_what_left_after_the_blocks_that_were_compared_is_gone_all_the_same(scene):
    scene.lose("4", block_number=scene.block + 1)

    assert surplus() == -4


def test_a_withdrawal_is_promised_until_it_has_landed_or_is_cancelled(scene):
    def book() -> Withdrawal:
        return book_withdrawal(
            scene.agent.id, amount=Decimal(30), chain=scene.chain.name, recipient=new_address(), by="fiona", reason="R"
        )

    landed, cancelled = book(), book()
    assert (scene.reconcile().verdict, surplus()) == ("ok", 0)
    cancel_withdrawal(cancelled.reference, by="fiona", reason="Changed their mind")
    assert (scene.reconcile().verdict, surplus()) == ("ok", 0)

    Withdrawal.objects.filter(pk=landed.pk).update(landed_block=scene.block + 1, landed_tx="0x1")
    assert (scene.reconcile().verdict, surplus()) == ("ok", 0)

    scene.next_block()
    scene.hold("970")
    row = scene.reconcile()
    assert (row.booked, row.drift, surplus()) == (970, 0, 0)


def test_what_moves_to_the_next_escrow_is_not_missing_before_nor_after_that_is_configured(scene, settings):
    settings.CHAINS = {name: served(name, escrow="old")[name] for name in settings.CHAINS}
    Reconciliation.objects.filter(chain__in=list(settings.CHAINS)).update(escrow="old")
    scene.chain.address = "old"
    Withdrawal.objects.create(
        reference=new_name("wdr"), chain=scene.chain.name, escrow="old", asset=Asset.USDC, amount=Decimal(1000),
        recipient="new", author="test", reason="R", created_at=utc_now(), landed_block=scene.block, landed_tx="0x1",
    )  # fmt: skip
    scene.hold("0")
    assert (scene.reconcile().drift, surplus()) == (0, 0)

    settings.CHAINS |= served(scene.chain.name, escrow="new")
    assert surplus() == 0  # the next escrow was not looked at yet
    scene.chain.address = "new"
    scene.hold("1000")
    row = scene.reconcile()

    assert (row.drift, surplus(), scene.state.stopped_reason) == (0, 0, "")


def test_a_chain_that_was_not_compared_yet_counts_on_neither_side(scene, settings):
    fresh = make_fake_chain()
    fresh.deposits.append(sighting(scene.agent, "7", block_number=5))
    fresh.finalise(10)
    search_history(fresh.name, fresh)
    settings.CHAINS |= served(fresh.name)
    fund_agent(scene.agent.id, amount=Decimal(3), by="test", chain=fresh.name)

    (pool,) = read_pools([Asset.USDC])

    assert pool.surplus == 0
    assert pool.not_compared == (fresh.name,)


def test_nothing_is_said_of_an_asset_before_any_chain_was_compared(db, settings):
    settings.CHAINS = served(new_name("fresh"))

    assert read_pools() == []
