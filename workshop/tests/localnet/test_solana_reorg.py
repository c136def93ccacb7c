"""`dev_reorganise`: the newest blocks are replaced by empty ones, as when a fork was abandoned."""

import os
import signal

import pytest

from workshop.tests.localnet.solana_chain import CONFIRMED, FAUCET, PROCESSED, SOL, STRANGER, SolanaChain, pay

INVALID_PARAMS = -32602


@pytest.fixture
def forked(solana):
    """Two payments in two blocks, after some that are final."""
    solana.rpc("dev_advance", 20)
    return [solana.land(pay(SOL)), solana.land(pay(2 * SOL))]


def hash_at(solana, height):
    return str(solana.node.chain.blockhash(height))


@pytest.mark.parametrize(("depth", "left"), [(1, SOL), (2, 0), (4, 0)])
def test_the_newest_blocks_are_replaced_and_what_they_held_is_gone(solana, forked, depth, left):
    height = solana.rpc("getBlockHeight", PROCESSED)
    before = [hash_at(solana, one) for one in range(height + 1)]
    spent = solana.lamports(FAUCET.pubkey())

    assert solana.rpc("dev_reorganise", depth) is None

    assert solana.rpc("getBlockHeight", PROCESSED) == height
    after = [hash_at(solana, one) for one in range(height + 1)]
    assert [old == new for old, new in zip(before, after, strict=True)] == [True] * (height + 1 - depth) + [
        False
    ] * depth
    assert not solana.rpc("isBlockhashValid", before[-1], PROCESSED)["value"]
    assert solana.lamports(STRANGER) == left
    assert solana.lamports(FAUCET.pubkey()) > spent
    assert solana.status(forked[1]) is None
    assert (solana.status(forked[0]) is None) == (left == 0)
    solana.finalise()
    assert len(solana.rpc("getSignaturesForAddress", str(STRANGER), CONFIRMED)) == (left > 0)


def test_removed_transactions_vanish_unless_they_are_to_wait_again(solana):
    solana.rpc("dev_advance", 20)
    blockhash = solana.blockhash()
    texts = [solana.signed(pay(amount * SOL), blockhash=blockhash) for amount in (1, 2)]
    for text in texts:
        solana.offer(text)
        solana.rpc("dev_nextBlock")
    solana.rpc("dev_reorganise", 2)
    solana.rpc("dev_nextBlock")
    assert solana.lamports(STRANGER) == 0

    sent = [solana.offer(text) for text in texts]
    solana.rpc("dev_nextBlock")
    solana.rpc("dev_reorganise", 1, True)
    assert solana.lamports(STRANGER) == 0
    solana.rpc("dev_nextBlock")
    assert solana.lamports(STRANGER) == 3 * SOL
    assert [solana.status(one)["err"] for one in sent] == [None, None]


def test_a_transaction_that_names_a_removed_block_cannot_land_again(solana, forked):
    text = solana.signed(pay(SOL))
    solana.rpc("dev_reorganise", 1)
    assert solana.offer(text)["data"]["err"] == "BlockhashNotFound"
    solana.offer(text, skipPreflight=True)
    solana.rpc("dev_nextBlock")
    assert solana.lamports(STRANGER) == SOL


@pytest.mark.parametrize("depth", [0, 5, -1, "2", True, None])
def test_final_blocks_stay(solana, forked, depth):
    assert solana.rpc("dev_reorganise", depth)["code"] == INVALID_PARAMS
    assert solana.lamports(STRANGER) == 3 * SOL


def test_what_was_there_before_a_restart_is_final(solana, forked, tmp_path):
    solana.database.close()
    again = SolanaChain(tmp_path, now_s=solana.now_s)
    assert again.status(forked[1])["confirmationStatus"] == "finalized"
    assert again.rpc("dev_reorganise", 1)["code"] == INVALID_PARAMS
    again.rpc("dev_nextBlock")
    assert again.rpc("dev_reorganise", 1) is None
    assert again.lamports(STRANGER) == 3 * SOL
    again.database.close()


def test_blockhashes_are_what_they_were_also_after_reorganisations_that_overlap(solana, tmp_path):
    solana.rpc("dev_advance", 20)
    for depth in (2, 4):
        solana.rpc("dev_reorganise", depth)
    solana.rpc("dev_advance", 5)
    slots = solana.rpc("getBlocks", 1, solana.rpc("getSlot", PROCESSED), CONFIRMED)
    before = [solana.rpc("getBlock", slot, {"transactionDetails": "none", **CONFIRMED})["blockhash"] for slot in slots]
    solana.database.close()

    again = SolanaChain(tmp_path, now_s=solana.now_s)

    after = [again.rpc("getBlock", slot, {"transactionDetails": "none", **CONFIRMED})["blockhash"] for slot in slots]
    assert after == before
    again.database.close()


def test_a_reorganised_chain_survives_kill_9(install):
    installation = install(only=["solana"])
    process, _ = installation.use()
    slot = installation.solana("dev_advance", 30)
    assert installation.solana("requestAirdrop", str(STRANGER), SOL, PROCESSED)
    installation.solana("dev_nextBlock")
    # As deep as can be: beside it blocks go on being made.
    installation.solana("dev_reorganise", 4)
    assert installation.solana("getBalance", str(STRANGER), PROCESSED)["value"] == 0
    installation.solana("dev_advance", 10)
    replaced = installation.solana("getBlock", slot, {"transactionDetails": "none"})
    os.kill(installation.pids()["solana"], signal.SIGKILL)
    process.kill()

    installation.use()

    assert installation.solana("getBlock", slot, {"transactionDetails": "none"}) == replaced
    assert installation.solana("getBalance", str(STRANGER), PROCESSED)["value"] == 0
