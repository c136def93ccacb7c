"""Missing money raises an alarm and stops signing; what comparisons are kept."""

import logging
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db.models import F

from foundation.kernel.errors import PolicySignerUnavailable
from payments.models import Reconciliation
from payments.settling.chain_switch import start_signing_on, stop_signing_on
from tests.support.reconciliations import EscrowScene


@pytest.fixture
def scene(db: None, has_nonces: bool) -> EscrowScene:
    """1000 USDC booked and held on a chain of either kind; rolled back."""
    return EscrowScene(has_nonces=has_nonces)


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
    stop_signing_on(scene.chain.name, reason="First", by="ann")
    stop_signing_on(scene.chain.name, reason="Second", by="ann")
    assert scene.state.stopped_reason == "First"

    start_signing_on(scene.chain.name, by="ann")

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
