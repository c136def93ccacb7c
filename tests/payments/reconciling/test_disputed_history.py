"""A node denies what most say of the escrow's history: all goes on, but nothing is given back until it is over."""

from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest

from chains.port import ChainUnavailable, EscrowSearch, VoidEvent
from chains.solana.adapter import SolanaChain
from foundation.kernel.times import utc_now
from payments.funding.owner_transactions import _may_be_included
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import DepositCursor, Withdrawal
from payments.reconciling.escrow_history import is_known, search_former_escrow, search_history
from payments.settling.confirming import confirm
from payments.settling.renewal import WORTH_RENEWING
from tests.support.credited_deposits import balance
from tests.support.deposits import sighting
from tests.support.invariants import check_agent
from tests.support.outflows import assert_stopped_by, outflow, outflows, search, take_out
from tests.support.scenes import HOUR, Scene, at_once, states_of, status_of, void_of
from tests.support.unpaid_payments import has_reverted, is_given_back

S = SettlementState
TOO_OLD = WORTH_RENEWING + HOUR


def cursor(scene: Scene) -> DepositCursor:
    return DepositCursor.objects.get(chain=scene.chain.name)


def dispute(scene: Scene) -> None:
    """Let some node deny what the others say of all blocks up to the newest final one."""
    scene.chain.disputed = set(range(1, scene.chain.finality.block_number + 1))


def agree(scene: Scene) -> None:
    """Let all nodes say the same from now on."""
    scene.chain.disputed.clear()


# --- What goes on -----------------------------------------------------------------------------------------------------
def test_deposits_are_credited_payments_settled_and_newer_blocks_looked_at(scene):
    payment = scene.pay_and_send()
    take_out(scene, payment)
    scene.chain.deposits.append(sighting(scene.agent, "5", block_number=40))
    dispute(scene)

    search(scene)

    assert status_of(payment) == PaymentStatus.SETTLED
    assert balance(scene.agent) == 1000 - 1 + 5
    assert cursor(scene).block_number == scene.chain.finality.block_number
    assert is_known(scene.chain.name, scene.chain)
    check_agent(scene.agent.id)


def test_an_outflow_of_nobody_stops_signing_though_a_node_denies_it(scene):
    found = take_out(scene, scene.pay_and_send(), escrow_id="of nobody")
    dispute(scene)

    search(scene)

    assert_stopped_by(scene, found, "It is neither a payment nor a withdrawal of ours.")


def test_a_void_of_nobody_stops_signing_though_a_node_denies_it(counting):
    counting.chain.voids.append(VoidEvent("0x1", 0, 50, "0x" + "77" * 32))
    dispute(counting)

    search(counting)

    assert [one.tx for one in outflows(counting)] == ["0x1"]
    assert counting.stopped_reason()


# --- What waits -------------------------------------------------------------------------------------------------------
def test_a_void_that_a_node_denies_gives_nothing_back_before_all_nodes_have_it(counting):
    payment = has_reverted(counting)
    counting.follow()
    counting.broadcast()
    counting.chain.include(void_of(payment))
    dispute(counting)

    for _ in range(2):
        search(counting)
        assert not is_given_back(counting, payment)
    assert counting.stopped_reason() == ""
    agree(counting)
    search(counting)

    assert is_given_back(counting, payment)
    assert cursor(counting).disputed_after is None
    search(counting)
    check_agent(counting.agent.id)


def test_a_void_in_a_later_block_about_which_all_agree_gives_back_at_once(counting):
    search(counting)
    dispute(counting)
    DepositCursor.objects.filter(chain=counting.chain.name).update(block_number=0)
    search(counting)
    before = cursor(counting).disputed_after
    payment = has_reverted(counting)
    counting.follow()
    counting.broadcast()
    counting.chain.include(void_of(payment))

    search(counting)

    assert is_given_back(counting, payment)
    assert cursor(counting).disputed_after == before == 0


@pytest.mark.parametrize("age", [timedelta(), TOO_OLD], ids=["is to be signed again", "is to be given back"])
def test_without_nonces_nothing_that_has_expired_ends_while_a_node_denies_the_history(db, age):
    """The node that denies it may be the one that does not hide that somebody has submitted the payment otherwise."""
    scene = Scene(has_nonces=False)
    payment = scene.pay_and_send(now=utc_now() - age)
    scene.pass_deadline(payment)
    dispute(scene)
    search(scene)

    assert confirm(scene.chain.name, scene.chain) == 0
    assert states_of(payment) == [S.BROADCAST]
    agree(scene)
    search(scene)
    assert confirm(scene.chain.name, scene.chain) == 1

    assert (status_of(payment) == PaymentStatus.FAILED) == (age == TOO_OLD)
    check_agent(scene.agent.id)


def test_a_withdrawal_whose_transaction_may_be_what_a_node_denies_is_not_over(db):
    scene = Scene(has_nonces=False)
    dispute(scene)
    search(scene)
    withdrawal, chain = Withdrawal(chain=scene.chain.name, valid_until_height=10), cast("SolanaChain", scene.chain)
    assert _may_be_included(withdrawal, chain, 0)

    agree(scene)
    search(scene)
    assert not _may_be_included(withdrawal, chain, 0)


def test_the_history_of_a_former_escrow_must_be_what_all_nodes_say(scene):
    dispute(scene)

    with pytest.raises(ChainUnavailable, match="contradict"):
        search_former_escrow(scene.chain.name, scene.chain, after=0)
    agree(scene)
    assert search_former_escrow(scene.chain.name, scene.chain, after=0) == scene.chain.finality.block_number


# --- The search of what is disputed -----------------------------------------------------------------------------------
def test_what_is_disputed_is_searched_again_from_its_first_block_until_all_say_the_same(scene):
    scene.chain.finalise(500)
    scene.chain.disputed = {40, 300}
    search(scene)
    assert (cursor(scene).block_number, cursor(scene).disputed_after) == (500, 32)

    scene.chain.disputed = {300}
    search(scene)
    assert (cursor(scene).block_number, cursor(scene).disputed_after) == (500, 256)
    agree(scene)
    search(scene)

    assert (cursor(scene).block_number, cursor(scene).disputed_after) == (500, None)
    scene.chain.asked_ranges.clear()
    search(scene)
    assert scene.chain.asked_ranges == []


def test_a_deposit_that_only_one_node_knew_and_all_know_later_is_credited_once(scene):
    dispute(scene)
    search(scene)
    scene.chain.deposits.append(sighting(scene.agent, "5", block_number=40))
    agree(scene)

    search(scene)
    DepositCursor.objects.filter(chain=scene.chain.name).update(block_number=0)
    search(scene)

    assert balance(scene.agent) == 1005


def test_nodes_that_cannot_be_asked_about_it_any_more_keep_nothing_else_waiting(scene):
    dispute(scene)
    search(scene)
    scene.chain.contradicted, scene.chain.disputed = scene.chain.disputed, set()
    scene.chain.finalise(scene.chain.finality.block_number + 1)
    DepositCursor.objects.filter(chain=scene.chain.name).update(complete_at=None)

    search(scene)

    assert cursor(scene).disputed_after == 0
    assert is_known(scene.chain.name, scene.chain)


@pytest.mark.parametrize(("searched", "disputed"), [(20, 60), (None, 60)])
def test_what_was_set_back_behind_a_dispute_proves_nothing_of_what_is_searched_again(searched, disputed):
    assert DepositCursor(block_number=searched, disputed_after=disputed).undisputed_block == searched


def test_what_is_disputed_before_an_earlier_dispute_is_disputed_from_there(scene):
    search(scene)
    DepositCursor.objects.filter(chain=scene.chain.name).update(block_number=20, disputed_after=60)
    scene.chain.disputed = {30}

    search(scene)

    assert cursor(scene).disputed_after == 20


def test_another_escrows_history_begins_undisputed(scene):
    dispute(scene)
    search(scene)
    scene.chain.address, scene.chain.first_block = "another", 90
    agree(scene)

    search(scene)

    assert cursor(scene).disputed_after is None


@pytest.mark.usefixtures("committed")
def test_several_watchers_that_end_a_dispute_at_once_give_back_once():
    scene = Scene()
    payment = has_reverted(scene)
    scene.follow()
    scene.broadcast()
    scene.chain.include(void_of(payment))
    dispute(scene)
    search(scene)
    agree(scene)

    at_once([lambda: search_history(scene.chain.name, scene.chain)] * 4)

    assert is_given_back(scene, payment)
    assert cursor(scene).disputed_after is None
    check_agent(scene.agent.id)


# --- Newer blocks -----------------------------------------------------------------------------------------------------
def test_newer_blocks_of_which_nodes_refuse_to_tell_at_once_are_looked_at_in_parts(scene):
    newest = scene.chain.finality.block_number + 600
    scene.chain.finality = replace(scene.chain.finality, newest=newest)
    scene.chain.longest_range = 32
    scene.chain.peeked = EscrowSearch(outflows=[outflow(scene, scene.pay(), escrow_id="of nobody")])

    search(scene)

    assert scene.stopped_reason()
    assert is_known(scene.chain.name, scene.chain)


def test_newer_blocks_that_could_not_be_looked_at_to_the_end_are_not_known(scene):
    search(scene)
    DepositCursor.objects.filter(chain=scene.chain.name).update(complete_at=None)
    scene.chain.longest_range = 0

    with pytest.raises(ChainUnavailable):
        search(scene)
    assert not is_known(scene.chain.name, scene.chain)
