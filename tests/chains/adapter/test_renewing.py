"""What expired and what is signed in its place, on a real machine: both are offered, in any order; one lands."""

from dataclasses import replace

import pytest

from tests.chains.adapter.solana_deployment import VALIDITY_BLOCKS, SolanaDeployment
from tests.support.fates import ABSENT, GONE, PAID, UNKNOWN, lone


def again(solana, sent):
    """Sign a payment again, by what the chain is now."""
    return solana.pay(sent.submitter, order=sent.order)


def pass_deadline(solana: SolanaDeployment, sent) -> None:
    solana.advance(max(1, sent.signed.valid_until_height + 1 - solana.final_height))


# --- What is proven ---------------------------------------------------------------------------------------------------
def test_one_that_is_not_there_is_proven_to_be_gone_only_past_its_last_height(solana):
    (submitter,) = solana.relayers()
    sent = solana.pay(submitter)
    last = sent.signed.valid_until_height

    (before,) = solana.fates_of(sent)
    solana.advance(last - solana.final_height - 3)
    fates = []
    # The chain goes on by itself while it is asked.
    while (lowest := solana.final_height) <= last:
        (fate,) = solana.fates_of(sent)
        fates.append((lowest, fate, solana.final_height))
        solana.mine()
    (after,) = solana.fates_of(sent)

    assert (before, after) == (ABSENT, GONE)
    assert {fate for _, fate, highest in fates if highest <= last} <= {ABSENT}
    assert {fate for _, fate, _ in fates} <= {ABSENT, GONE}


def test_one_that_landed_is_not_gone_however_long_ago(solana):
    (submitter,) = solana.relayers()
    sent = solana.pay(submitter)
    landed = solana.land(sent)

    solana.advance(3 * VALIDITY_BLOCKS)

    adapter = solana.adapter()
    assert solana.fates_of(sent) == [PAID]
    assert adapter.follower.find_inclusions([sent.sought], adapter.follower.find_finality()).inclusions == landed


def test_one_that_is_in_a_block_that_is_not_final_is_neither_paid_nor_gone(solana):
    (submitter,) = solana.relayers()
    sent = solana.pay(submitter)
    adapter = solana.adapter()
    finality = adapter.follower.find_finality()
    adapter.broadcaster.send([sent.raw])
    solana.wait(lambda: adapter.follower.find_inclusions([sent.sought], finality).inclusions or None)

    (fate,) = solana.fates_of(sent)

    assert fate in (UNKNOWN, PAID)
    solana.land(sent)


def test_that_one_is_gone_is_not_proven_where_it_is_unknown_since_when_it_could_land(solana):
    (submitter,) = solana.relayers()
    sent = solana.pay(submitter)
    pass_deadline(solana, sent)
    adapter = solana.adapter()
    unknown = replace(sent.sought, valid_from_block=None)

    assert lone(adapter.prover.find_fates([unknown], adapter.follower.find_finality())[sent.tx]) != GONE
    assert solana.fates_of(sent) == [GONE]


# --- The race ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("asset", SolanaDeployment.assets)
@pytest.mark.parametrize("order", ["old first", "new first", "again and again"])
def test_of_one_that_expired_and_the_one_in_its_place_exactly_one_lands(solana, asset, order):
    adapter = solana.adapter()
    (submitter,) = solana.relayers()
    old = solana.pay(submitter, "1.5", asset)
    held = solana.held(asset)
    pass_deadline(solana, old)
    assert solana.fates_of(old) == [GONE]
    new = again(solana, old)
    assert new.tx != old.tx
    offers = {"old first": [old, new], "new first": [new, old], "again and again": [old, new] * 5}[order]

    refusals = [adapter.broadcaster.send([one.raw])[0] for one in offers]
    landed = solana.land(new)
    # Also when it has landed.
    adapter.broadcaster.send([old.raw, new.raw, old.raw])
    for _ in range(3):
        solana.mine()

    both = adapter.follower.find_inclusions([old.sought, new.sought], adapter.follower.find_finality()).inclusions
    assert both == landed
    assert [refusal is None for refusal in refusals] == [one is new for one in offers]
    units = 15 * 10 ** (asset.decimals - 1)
    assert solana.balance_of(old.order.recipient, asset) == units
    assert solana.held(asset) == held - units
    assert solana.fates_of(old, new) == [GONE, PAID]


def test_one_that_was_taken_and_waited_too_long_does_not_land_either(solana):
    """A node keeps it; blocks pass without it until it has expired."""
    adapter = solana.adapter()
    (submitter,) = solana.relayers()
    old = solana.pay(submitter)
    solana.advance(VALIDITY_BLOCKS - 10)
    adapter.broadcaster.send([old.raw])
    solana.advance(30)
    in_time = adapter.follower.find_inclusions([old.sought], adapter.follower.find_finality()).inclusions
    new = again(solana, old)

    if not in_time:
        assert solana.fates_of(old) == [GONE]
        solana.land(new)
    adapter.broadcaster.send([old.raw])

    assert solana.balance_of(old.order.recipient) == 1_500_000


def test_many_times_expired_is_paid_once(solana):
    (submitter,) = solana.relayers()
    signed = [solana.pay(submitter)]
    for _ in range(4):
        pass_deadline(solana, signed[-1])
        signed.append(again(solana, signed[-1]))
    adapter = solana.adapter()

    adapter.broadcaster.send([one.raw for one in signed])
    solana.land(signed[-1])
    adapter.broadcaster.send([one.raw for one in reversed(signed)])
    solana.mine()

    assert solana.fates_of(*signed) == [GONE] * 4 + [PAID]
    assert solana.balance_of(signed[0].order.recipient) == 1_500_000
