"""Deposits: found in final blocks, credited once, whatever crashes, repeats, is refused or is contradicted."""

from dataclasses import replace
from decimal import Decimal

import pytest
from django.conf import settings
from django.db import IntegrityError

from chains.port import ChainUnavailable, EscrowSearch
from foundation.kernel.times import utc_now
from payments.models import Deposit, DepositCursor
from payments.reconciling.escrow_history import search_history
from payments.reconciling.history_ranges import LONGEST, MOST_AT_ONCE
from tests.support.credited_deposits import balance, cursor, problems
from tests.support.deposits import DEPOSITOR, FindOurPayments, make_searched_chain, sighting
from tests.support.fake_chain import FakeChain, make_fake_chain
from tests.support.invariants import check_agent


# --- Crediting --------------------------------------------------------------------------------------------------------
def test_a_deposit_is_credited_with_a_movement_that_names_its_transaction(agent):
    found = sighting(agent, "12.345678")
    chain = make_searched_chain(found)

    assert search_history(chain.name, chain) == 1

    deposit = Deposit.objects.get(tx=found.tx)
    movement = deposit.movement
    assert movement
    assert balance(agent) == Decimal("1012.345678")
    assert (movement.kind, movement.amount, movement.author) == ("funding", Decimal("12.345678"), "deposit")
    assert (movement.reason, movement.chain) == (found.tx, chain.name)
    assert (deposit.state, deposit.agent_id, deposit.note, deposit.depositor) == ("credited", agent.id, "", DEPOSITOR)
    assert cursor(chain) == 100
    assert problems(agent) == []
    check_agent(agent.id)


def test_only_final_blocks_are_searched(agent):
    chain = make_searched_chain(sighting(agent, block_number=100), sighting(agent, block_number=101))

    assert search_history(chain.name, chain) == 1
    assert max(last for _, last in chain.asked_ranges) == 100
    chain.finality = replace(chain.finality, block_number=101)
    assert search_history(chain.name, chain) == 1

    assert balance(agent) == 1010


def test_what_was_searched_is_not_searched_again(agent):
    chain = make_searched_chain(sighting(agent))
    search_history(chain.name, chain)
    chain.asked_ranges.clear()

    assert search_history(chain.name, chain) == 0
    assert chain.asked_ranges == []


def test_a_cursor_that_was_set_back_credits_nothing_twice(agent):
    chain = make_searched_chain(sighting(agent), sighting(agent, log_index=3))
    search_history(chain.name, chain)
    DepositCursor.objects.filter(chain=chain.name).update(block_number=7)
    chain.deposits.append(sighting(agent, "100", block_number=60))  # as if it had been missed

    assert search_history(chain.name, chain) == 1

    assert (balance(agent), cursor(chain)) == (1110, 100)
    assert Deposit.objects.filter(agent=agent).count() == 3


def test_a_cursor_that_somebody_moves_meanwhile_stays_where_they_put_it(agent):
    class Moving(FakeChain):
        def search(self, first_block: int, last_block: int, find_our_payments: FindOurPayments) -> EscrowSearch:
            if first_block == 41:
                DepositCursor.objects.filter(chain=self.name).update(block_number=7)
            return super().search(first_block, last_block, find_our_payments)

    chain = Moving(make_searched_chain(up_to=40).name, deposits=[sighting(agent, block_number=n) for n in (8, 41)])

    assert search_history(chain.name, chain) == 0
    assert (balance(agent), cursor(chain)) == (1000, 7)
    assert search_history(chain.name, chain) == 2
    assert (balance(agent), cursor(chain)) == (1010, 100)


def test_several_deposits_of_one_transaction_are_all_credited(agent):
    first = sighting(agent, "1")
    chain = make_searched_chain(first, replace(first, log_index=1, amount=Decimal(2)))

    search_history(chain.name, chain)

    assert balance(agent) == 1003


def test_the_same_transaction_id_on_two_chains_is_two_deposits(agent):
    found = sighting(agent)
    for chain in (make_searched_chain(found), make_searched_chain(found)):
        search_history(chain.name, chain)

    assert balance(agent) == 1010


def test_what_breaks_off_in_the_middle_leaves_nothing_and_is_done_later(agent):
    # The database refuses a deposit of nothing, after the first one was credited.
    good, bad = sighting(agent), sighting(agent, "0", log_index=1)
    chain = make_searched_chain(good, bad)

    with pytest.raises(IntegrityError):
        search_history(chain.name, chain)
    assert (balance(agent), cursor(chain)) == (1000, 32)
    assert not Deposit.objects.filter(chain=chain.name).exists()

    chain.deposits.remove(bad)
    search_history(chain.name, chain)
    assert (balance(agent), cursor(chain)) == (1005, 100)


def test_more_deposits_than_one_transaction_takes_are_all_credited(agent):
    found = [sighting(agent, "0.01", block_number=40 + number % 2) for number in range(MOST_AT_ONCE + 1)]
    chain = make_searched_chain(*found)

    assert search_history(chain.name, chain) == len(found)

    assert balance(agent) == 1000 + len(found) * Decimal("0.01")
    assert chain.asked_ranges[-1][1] == 100


# --- Nodes ------------------------------------------------------------------------------------------------------------
def test_a_range_that_is_refused_is_halved_and_none_is_left_out(agent):
    chain = make_searched_chain(*(sighting(agent, "1", block_number=number) for number in (1, 6, 7, 99, 100)))
    chain.longest_range = 5

    assert search_history(chain.name, chain) == 5

    answered = [one for one in chain.asked_ranges if one[1] - one[0] < 5]
    assert [number for first, last in answered for number in range(first, last + 1)] == list(range(1, 101))
    assert balance(agent) == 1005


def test_a_node_that_gives_one_block_at_a_time_is_enough(agent):
    chain = make_searched_chain(sighting(agent), up_to=90)
    chain.deposits = [sighting(agent, block_number=number) for number in range(91, 101)]
    chain.longest_range = 1

    assert search_history(chain.name, chain) == 10


def test_a_long_way_is_gone_in_ever_longer_ranges(db):
    chain = make_searched_chain()
    chain.finality = replace(chain.finality, block_number=10 * LONGEST)

    search_history(chain.name, chain)

    lengths = [last - first + 1 for first, last in chain.asked_ranges]
    assert lengths[:3] == [32, 64, 128]
    assert max(lengths) == LONGEST
    assert cursor(chain) == 10 * LONGEST


def test_nodes_that_contradict_each_other_credit_nothing_and_hold_the_cursor_before_the_block(agent):
    chain = make_searched_chain(
        sighting(agent, "1", block_number=49), sighting(agent, "10"), sighting(agent, "100", block_number=51)
    )
    chain.contradicted = {50}

    for _ in range(2):
        with pytest.raises(ChainUnavailable):
            search_history(chain.name, chain)
        assert (balance(agent), cursor(chain)) == (1001, 49)

    chain.contradicted = set()
    assert search_history(chain.name, chain) == 2
    assert balance(agent) == 1111


def test_a_chain_that_is_away_moves_nothing(agent):
    chain = make_searched_chain(sighting(agent))
    chain.is_away = True

    with pytest.raises(ChainUnavailable):
        search_history(chain.name, chain)

    assert (balance(agent), cursor(chain)) == (1000, 0)


def test_a_deposit_in_a_block_that_was_not_asked_about_is_not_believed(agent):
    class Liar(FakeChain):
        def search(self, first_block: int, last_block: int, find_our_payments: FindOurPayments) -> EscrowSearch:
            return EscrowSearch(self.deposits)

    chain = Liar(make_searched_chain().name, deposits=[sighting(agent, block_number=101)])

    with pytest.raises(ChainUnavailable):
        search_history(chain.name, chain)

    assert (balance(agent), cursor(chain)) == (1000, 0)


# --- The real chains --------------------------------------------------------------------------------------------------
def test_another_escrow_is_searched_from_its_own_first_block(db):
    chain = make_fake_chain()
    search_history(chain.name, chain)
    assert cursor(chain) == chain.finality.block_number

    chain.address, chain.first_block = "0x" + "77" * 20, 41
    chain.asked.clear()
    search_history(chain.name, chain)

    assert "search" in chain.asked
    assert DepositCursor.objects.get(chain=chain.name).escrow == chain.address
    assert cursor(chain) == chain.finality.block_number


def test_an_installation_that_credited_by_hand_is_not_searched_backwards(db):
    chain = make_fake_chain()
    DepositCursor.objects.create(chain=chain.name, block_number=None, moved_at=utc_now())

    search_history(chain.name, chain)

    assert "search" not in chain.asked
    assert cursor(chain) == chain.finality.block_number


def test_the_clock_rings_for_deposits():
    entry = settings.CELERY["beat_schedule"]["watch_deposits on every chain"]
    assert entry["args"] == ("payments.tasks.watch_deposits",)
