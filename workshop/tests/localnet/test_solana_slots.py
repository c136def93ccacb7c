"""Slots, heights, commitments, and blockhashes that expire."""

import base64

import pytest
from solders.clock import Clock
from solders.sysvar import CLOCK

from workshop.tests.localnet.solana_chain import (
    CONFIRMED,
    FINALIZED,
    GENESIS_S,
    PROCESSED,
    SIGNATURE_FEE,
    SOL,
    STRANGER,
    SolanaChain,
    pay,
)

ALL = (PROCESSED, CONFIRMED, FINALIZED)


def heights(solana):
    return [solana.rpc("getBlockHeight", commitment) for commitment in ALL]


def slots(solana):
    return [solana.rpc("getSlot", commitment) for commitment in ALL]


def test_a_slot_begins_every_400_ms_and_every_sixteenth_has_no_block(solana):
    assert slots(solana) == heights(solana) == [0, 0, 0]
    solana.pass_time(0.39)
    assert slots(solana) == [0, 0, 0]
    solana.pass_time(12 * 0.4 + 0.01)
    assert slots(solana) == heights(solana) == [13, 12, 9]
    solana.pass_time(0.4)
    assert slots(solana) == [14, 13, 10]
    solana.pass_time(0.4)
    assert slots(solana) == [14, 13, 10]
    solana.pass_time(0.4)
    assert slots(solana) == [16, 14, 11]
    assert heights(solana) == [15, 14, 11]
    assert solana.rpc("getBlocks", 12, CONFIRMED) == [12, 13, 14]
    solana.pass_time(160)
    assert slots(solana)[0] == 416
    assert heights(solana)[0] == 416 - 26


def test_the_default_commitment_is_finalized(solana):
    solana.pass_time(4)
    assert solana.rpc("getSlot") == solana.rpc("getSlot", FINALIZED) == 6
    assert solana.rpc("getSlot", {"commitment": "max"})["code"] == -32602


def test_slots_do_not_go_back_when_the_clock_does(solana):
    solana.pass_time(40)
    before = slots(solana)
    solana.pass_time(-20)
    assert slots(solana) == before
    solana.pass_time(20.4)
    assert slots(solana)[0] == before[0] + 1


@pytest.mark.parametrize("gap_s", [-3600, 0, 3600])
def test_a_reopened_chain_goes_on_where_it_was_or_later(solana, tmp_path, gap_s):
    solana.land(pay(SOL))
    # Empty slots are written nowhere; they count all the same.
    solana.pass_time(400)
    before, blockhash = slots(solana), solana.blockhash()
    solana.database.close()

    again = SolanaChain(tmp_path, now_s=solana.now_s + gap_s)

    assert again.lamports(STRANGER, FINALIZED) == SOL
    expected = before[0] + max(0, gap_s) * 5 // 2
    assert expected - 1 <= slots(again)[0] <= expected
    assert all(new >= old for new, old in zip(slots(again), before, strict=True))
    assert again.rpc("isBlockhashValid", blockhash, PROCESSED)["value"] == (gap_s <= 0)
    again.database.close()


def test_the_chains_clock_can_be_read_at_each_commitment(solana):
    solana.pass_time(80)
    for commitment in ALL:
        answer = solana.rpc("getAccountInfo", str(CLOCK), {**commitment, "encoding": "base64"})
        clock = Clock.from_bytes(base64.b64decode(answer["value"]["data"][0]))
        assert clock.slot == answer["context"]["slot"] == solana.rpc("getSlot", commitment)
        assert clock.unix_timestamp == GENESIS_S + clock.slot * 2 // 5
        assert clock.unix_timestamp == solana.rpc("getBlockTime", solana.rpc("getSlot")) or commitment != FINALIZED


def test_a_context_slot_that_is_not_reached_is_refused(solana):
    solana.pass_time(8)
    newest = solana.rpc("getSlot", PROCESSED)
    assert solana.rpc("getBalance", str(STRANGER), {**PROCESSED, "minContextSlot": newest})["value"] == 0
    error = solana.rpc("getBalance", str(STRANGER), {"minContextSlot": newest})
    assert error["code"] == -32016
    assert error["data"] == {"contextSlot": solana.rpc("getSlot")}


def test_a_blockhash_is_valid_for_150_blocks(solana):
    latest = solana.rpc("getLatestBlockhash", PROCESSED)["value"]
    assert latest["lastValidBlockHeight"] == solana.rpc("getBlockHeight", PROCESSED) + 150
    text = solana.signed(pay(SOL), blockhash=latest["blockhash"])
    while solana.rpc("getBlockHeight", PROCESSED) < latest["lastValidBlockHeight"] - 1:
        solana.rpc("dev_advance", 1)
    in_time = solana.offer(text, skipPreflight=True)
    solana.rpc("dev_nextBlock")
    assert solana.rpc("getBlockHeight", PROCESSED) == latest["lastValidBlockHeight"]
    assert solana.status(in_time)["err"] is None
    assert solana.rpc("isBlockhashValid", latest["blockhash"], PROCESSED)["value"]

    late = solana.offer(solana.signed(pay(1), blockhash=latest["blockhash"]), skipPreflight=True)
    solana.rpc("dev_nextBlock")

    assert solana.status(late) is None
    assert not solana.rpc("isBlockhashValid", latest["blockhash"], PROCESSED)["value"]
    # At `finalized` the chain is four blocks shorter.
    assert solana.rpc("isBlockhashValid", latest["blockhash"], FINALIZED)["value"]


def test_blockhashes_expire_while_nobody_sends_anything(solana):
    blockhash = solana.blockhash()
    solana.pass_time(59)
    assert solana.rpc("isBlockhashValid", blockhash, PROCESSED)["value"]
    solana.pass_time(7)
    assert not solana.rpc("isBlockhashValid", blockhash, PROCESSED)["value"]
    assert solana.offer(solana.signed(pay(1), blockhash=blockhash))["message"].endswith("Blockhash not found")


def test_what_waits_is_dropped_when_its_blockhash_expires(solana):
    sent = solana.send(pay(1))
    assert solana.rpc("dev_advance", 200) >= 199
    solana.rpc("dev_nextBlock")
    assert solana.status(sent) is None
    assert solana.lamports(STRANGER) == 0


def test_slots_made_by_hand_move_the_time_along_for_good(solana, tmp_path):
    solana.rpc("dev_advance", 1000)
    newest = slots(solana)[0]
    assert newest in {999, 1000}
    solana.pass_time(4)
    assert newest + 9 <= slots(solana)[0] <= newest + 11
    now = slots(solana)[0]
    solana.database.close()
    again = SolanaChain(tmp_path, now_s=solana.now_s)
    assert slots(again)[0] == now
    again.database.close()


def test_accounts_are_read_as_they_were_at_each_commitment(solana):
    faucet_before = solana.lamports(solana.node.chain.airdropper.pubkey())
    solana.land(pay(SOL))
    assert [solana.lamports(STRANGER, one) for one in ALL] == [SOL, 0, 0]
    solana.land(pay(SOL))
    assert [solana.lamports(STRANGER, one) for one in ALL] == [2 * SOL, SOL, 0]
    for expected in ([2, 2, 0], [2, 2, 0], [2, 2, 1], [2, 2, 2]):
        solana.rpc("dev_nextBlock")
        assert [solana.lamports(STRANGER, one) // SOL for one in ALL] == expected
    found = solana.rpc("getMultipleAccounts", [str(STRANGER), str(STRANGER)[:-1] + "1"], PROCESSED)["value"]
    assert [one and one["lamports"] for one in found] == [2 * SOL, None]
    assert solana.lamports(solana.node.chain.airdropper.pubkey()) == faucet_before


def test_a_transaction_is_tried_on_the_state_and_the_blockhashes_of_its_commitment(solana):
    solana.finalise()
    other = solana.node.chain.airdropper
    before = solana.lamports(other.pubkey())
    solana.land(pay(SOL, to=other.pubkey()))
    everything = pay(before + SOL - SIGNATURE_FEE, by=other)
    text = solana.signed(everything, by=other, blockhash=solana.rpc("getLatestBlockhash")["value"]["blockhash"])
    options = {"encoding": "base64", "sigVerify": True}
    early = solana.rpc("simulateTransaction", text, options)["value"]
    assert early["err"] == {"InstructionError": [0, {"Custom": 1}]}
    assert solana.rpc("simulateTransaction", text, options | PROCESSED)["value"]["err"] is None
    # It was only tried.
    assert solana.lamports(other.pubkey()) == before + SOL
    # The newest blockhash is not known at `finalized` yet, as everyone learns who forgets preflightCommitment.
    refused = solana.offer(solana.signed(pay(1)), preflightCommitment="finalized")
    assert (refused["code"], refused["data"]["err"]) == (-32002, "BlockhashNotFound")
