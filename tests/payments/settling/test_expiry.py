"""When a payment without nonces may end: what has expired is over once the escrow's history was searched past it.

One without nonces: there the escrow does not count payments itself.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from chains.port import Observation
from foundation.kernel.times import utc_now
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import DepositCursor
from payments.reconciling.escrow_history import (
    LONGEST_SEARCH_PAUSE,
    UNKNOWN_VALIDITY_BLOCKS,
    record_search_pause,
    search_history,
)
from payments.settling.confirming import confirm
from payments.settling.next_states import HEIGHT_MARGIN, find_search_cursor, may_end_unpaid
from tests.support.factories import new_name
from tests.support.invariants import check_agent
from tests.support.scenes import Scene, row_of, state_of, states_of, status_of, transaction_of
from tests.support.scripted_chain import outflow_of

S = SettlementState


@pytest.fixture
def has_nonces() -> bool:
    """An escrow on a chain with nonces counts payments itself."""
    return False


def search(scene: Scene) -> None:
    search_history(scene.chain.name, scene.chain)


def cursor_at(scene: Scene, block_number: int) -> None:
    search(scene)
    DepositCursor.objects.filter(chain=scene.chain.name).update(block_number=block_number)


# --- Searched first ---------------------------------------------------------------------------------------------------
def test_nothing_that_has_expired_ends_before_the_search_has_come_past_it(scene):
    payment = scene.pay_and_send()
    last = (transaction_of(payment).valid_until_height or 0) + HEIGHT_MARGIN
    scene.chain.finalise(last)

    assert confirm(scene.chain.name, scene.chain) == 0  # nobody has searched
    cursor_at(scene, last - 1)
    assert confirm(scene.chain.name, scene.chain) == 0
    assert states_of(payment) == [S.BROADCAST]

    cursor_at(scene, last)
    assert confirm(scene.chain.name, scene.chain) == 1
    assert states_of(payment) == [S.EXPIRED, S.SIGNED]


def test_a_search_that_stays_behind_ends_nothing_however_long_ago_it_expired(scene):
    payment = scene.pay_and_send()
    scene.pass_deadline(payment)
    search(scene)
    scene.chain.finalise(scene.chain.finality.block_number + 1000)

    assert confirm(scene.chain.name, scene.chain) == 0

    search(scene)
    assert confirm(scene.chain.name, scene.chain) == 1


def test_the_search_of_another_escrow_is_none(scene):
    payment = scene.pay_and_send()
    scene.pass_deadline(payment)
    search(scene)
    DepositCursor.objects.filter(chain=scene.chain.name).update(escrow="another")

    assert confirm(scene.chain.name, scene.chain) == 0
    assert state_of(payment) == S.BROADCAST


def test_what_is_found_while_an_end_is_being_concluded_is_not_overlooked(scene, monkeypatch):
    payment = scene.pay_and_send()
    scene.pass_deadline(payment)
    cursor_at(scene, 0)
    number = scene.chain.finality.block_number + 1
    found = outflow_of(payment, new_name("tx"), number, recipient="")
    scene.chain.outflows.append(found)
    scene.chain.finalise(number)

    def search_meanwhile(*_: Any) -> Observation:
        search(scene)
        return Observation({}, {})

    monkeypatch.setattr(scene.chain, "find_inclusions", search_meanwhile)

    assert confirm(scene.chain.name, scene.chain) == 0
    assert states_of(payment) == [S.REPLACED, S.FINAL]
    assert (transaction_of(payment).tx, status_of(payment)) == (found.tx, PaymentStatus.SETTLED)
    check_agent(scene.agent.id)


@pytest.mark.parametrize("has_nonces", [True])
def test_where_the_escrow_counts_payments_nothing_is_waited_for(scene):
    payment = scene.pay_and_send()
    scene.pass_deadline(payment)

    assert may_end_unpaid(row_of(transaction_of(payment)), scene.chain.finality, None, scene.chain)
    assert scene.confirm() == 1


def test_after_a_break_in_the_search_what_may_still_be_under_way_is_waited_for(scene):
    search(scene)
    payment = scene.pay_and_send()
    cursors = DepositCursor.objects.filter(chain=scene.chain.name)
    cursors.update(moved_at=F("moved_at") - 2 * LONGEST_SEARCH_PAUSE)
    scene.pass_deadline(payment)
    began = scene.chain.finality.height

    assert scene.confirm() == 0
    assert cursors.get().strays_until_height == began + UNKNOWN_VALIDITY_BLOCKS
    scene.chain.finalise(began + UNKNOWN_VALIDITY_BLOCKS - 1)
    assert scene.confirm() == 0
    scene.chain.finalise(began + UNKNOWN_VALIDITY_BLOCKS)

    assert scene.confirm() == 1
    assert states_of(payment) == [S.EXPIRED, S.SIGNED]


def test_numbers_without_a_block_are_not_taken_for_blocks(scene):
    payment = scene.pay_and_send()
    last = (transaction_of(payment).valid_until_height or 0) + HEIGHT_MARGIN
    scene.chain.finalise(last + 1000)
    scene.chain.finality = replace(scene.chain.finality, height=last + 1, skipped=999)
    cursor_at(scene, last + 998)

    assert confirm(scene.chain.name, scene.chain) == 0

    cursor_at(scene, last + 999)
    assert confirm(scene.chain.name, scene.chain) == 1


# --- What failed on the chain -----------------------------------------------------------------------------------------
def test_what_failed_in_a_final_block_is_given_back_only_once_nothing_else_can_pay_it(scene):
    """Whoever has the relayer's key can submit the same message under another id, as long as its blockhash lasts."""
    payment = scene.pay_and_send()
    row = transaction_of(payment)
    scene.chain.include(row, failure="The recipient's account is frozen.")
    height = row.valid_until_height or 0
    last = height + HEIGHT_MARGIN

    for number in (scene.chain.finality.block_number, height, last):
        scene.chain.finalise(number)
        cursor_at(scene, min(number, last - 1))
        assert confirm(scene.chain.name, scene.chain) == 0
        assert (status_of(payment), scene.returns().count()) == (PaymentStatus.APPROVED, 0)
    cursor_at(scene, last)
    assert confirm(scene.chain.name, scene.chain) == 1

    assert (states_of(payment), status_of(payment)) == ([S.FAILED], PaymentStatus.FAILED)
    assert scene.returns().count() == 1
    check_agent(scene.agent.id)


def test_what_failed_and_is_paid_under_another_id_before_it_is_late_is_settled(scene):
    payment = scene.pay_and_send()
    scene.chain.include(transaction_of(payment), failure="Insufficient funds.")
    scene.confirm()
    number = scene.chain.finality.block_number + 1
    scene.chain.outflows.append(outflow_of(payment, new_name("tx"), number, recipient=""))
    scene.chain.finalise(number)

    scene.pass_deadline(payment)
    scene.confirm()

    assert status_of(payment) == PaymentStatus.SETTLED
    assert not scene.returns().exists()
    check_agent(scene.agent.id)


# --- Breaks -----------------------------------------------------------------------------------------------------------
def strays_until(scene: Scene) -> int | None:
    return DepositCursor.objects.get(chain=scene.chain.name).strays_until_height


def test_a_search_that_goes_on_is_no_break(scene):
    search(scene)
    for _ in range(2):
        record_search_pause(scene.chain.name, scene.chain.finality)
    assert strays_until(scene) is None


def test_a_break_is_noted_before_the_search_goes_on(scene):
    search(scene)
    cursors = DepositCursor.objects.filter(chain=scene.chain.name)
    cursors.update(moved_at=F("moved_at") - 2 * LONGEST_SEARCH_PAUSE)

    record_search_pause(scene.chain.name, scene.chain.finality)

    assert strays_until(scene) == scene.chain.finality.height + UNKNOWN_VALIDITY_BLOCKS


def test_a_search_that_a_clock_dated_ahead_was_broken_off(scene):
    search(scene)
    DepositCursor.objects.filter(chain=scene.chain.name).update(moved_at=utc_now() + timedelta(days=30))

    record_search_pause(scene.chain.name, scene.chain.finality)

    assert strays_until(scene) == scene.chain.finality.height + UNKNOWN_VALIDITY_BLOCKS


def test_what_was_never_searched_ends_nothing(scene):
    payment = scene.pay_and_send()
    scene.pass_deadline(payment)
    assert find_search_cursor(scene.chain.name, scene.chain) is None
    assert not may_end_unpaid(row_of(transaction_of(payment)), scene.chain.finality, None, scene.chain)
