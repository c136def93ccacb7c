"""A Solana node that lies, lags or has forgotten beside an honest one settles nothing, fails nothing, signs nothing."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from chains.port import ChainUnavailable, Contradiction, GasCost, TransactionQuery
from chains.solana.adapter import SolanaChain
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from tests.support.deposits import none_of_ours
from tests.support.fake_nodes import Node, open_nodes
from tests.support.fake_solana_nodes import FINAL, HEIGHT, NEWEST, Truth, adapter, some_hash, status, tell
from tests.support.fates import UNKNOWN, lone_fates
from tests.support.lying_solana_nodes import OLD, ORDER, TURN, finality, sign, sought
from tests.support.solana_vm import SEED

ERROR = {"InstructionError": [3, {"Custom": 1}]}


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    with open_nodes(3) as made:
        yield made


# --- Finality ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "lie",
    [{"final": 10**6, "height": 10**6}, {"final": 10**6, "height": 10**6, "time": 1e6}, {"final": 3, "time": 1e6}],
    ids=["ahead", "ahead and stale", "stale"],
)
def test_a_node_alone_does_not_say_what_is_final(nodes, truth, liar, lie):
    said = tell(nodes, truth, liar, **replace(truth, **lie).answers()).follower.find_finality()

    assert (said.block_number, said.height) == (FINAL, HEIGHT)
    assert abs(said.time - utc_now()) < timedelta(minutes=1)


def test_a_node_that_is_a_little_behind_delays_finality(nodes, truth, liar):
    behind = replace(truth, final=FINAL - 20, height=HEIGHT - 20, newest=NEWEST - 20, time=truth.time - 8).answers()

    two, three = (tell(some, truth, liar, **behind).follower.find_finality() for some in (nodes[:2], nodes))
    assert (two.block_number, two.height) == (FINAL - 20, HEIGHT - 20)
    assert (three.block_number, three.height) == (FINAL, HEIGHT)
    assert (two.newest, three.newest) == (NEWEST - 20, NEWEST)


@pytest.mark.parametrize("height", [HEIGHT - 20, HEIGHT])
def test_a_node_that_holds_up_what_has_expired_by_skipped_slots_is_named(nodes, truth, liar, height):
    lie = replace(truth, final=FINAL + 10**5, height=height)
    chain = tell(nodes, truth, liar, **lie.answers())

    said = chain.follower.find_finality()

    assert (said.block_number, said.skipped) == (FINAL, FINAL + 10**5 - height)
    assert chain.inspector.take_contradictions() == [Contradiction(liar + 1, "how far the chain is")]
    chain = tell(nodes, truth, liar, **replace(truth, final=FINAL - 20, height=HEIGHT - 25).answers())
    chain.follower.find_finality()
    assert chain.inspector.take_contradictions() == []


def test_one_of_several_nodes_alone_makes_nothing_final(nodes, truth):
    chain = tell(nodes[:2], truth)
    one = sought(truth)
    nodes[1].respond = lambda _: (503, b"")

    said = chain.follower.find_finality()
    assert (said.block_number, said.height, said.time) == (0, 0, datetime.fromtimestamp(0, UTC))
    with pytest.raises(ChainUnavailable):
        chain.escrow.search(1, FINAL, none_of_ours)
    with pytest.raises(ChainUnavailable):
        chain.escrow.find_holdings(FINAL)
    assert lone_fates(chain.prover.find_fates([one], finality())) == {one.tx: UNKNOWN}


# --- Inclusions -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("said", [None, status(900, commitment="processed"), status(900, commitment="confirmed")])
def test_what_one_node_has_not_seen_another_may_have(nodes, truth, liar, said):
    one = sought(truth)
    truth.statuses[one.tx] = status(900)
    chain = tell(nodes, truth, liar, getSignatureStatuses=lambda *_: truth.context([said]))

    found = chain.follower.find_inclusions([one], finality()).inclusions[one.tx]
    assert (found.block_number, found.is_final, found.failure) == (900, True, None)


def test_what_is_processed_is_in_no_block_yet(nodes, truth):
    one = sought(truth)
    truth.statuses[one.tx] = status(900, commitment="processed")

    assert tell(nodes, truth).follower.find_inclusions([one], finality()).inclusions == {}


def test_nothing_is_final_because_a_node_alone_says_so(nodes, truth, liar):
    one = sought(truth)
    truth.statuses[one.tx] = status(NEWEST, commitment="confirmed")
    chain = tell(nodes, truth, liar, getSignatureStatuses=lambda *_: truth.context([status(NEWEST)]))

    assert not chain.follower.find_inclusions([one], finality()).inclusions[one.tx].is_final


def test_a_block_that_there_cannot_be_is_not_believed(nodes, truth, liar):
    one = sought(truth)
    chain = tell(nodes, truth, liar, getSignatureStatuses=lambda *_: truth.context([status(10**9)]))

    assert chain.follower.find_inclusions([one], finality()).inclusions == {}


def test_a_failure_says_what_failed_once_it_is_final(nodes, truth):
    one = sought(truth)
    truth.statuses[one.tx] = status(NEWEST, {"InstructionError": [7, {"Custom": 1}]}, "confirmed")
    chain = tell(nodes, truth)
    assert chain.follower.find_inclusions([one], finality()).inclusions[one.tx].failure is None

    truth.statuses[one.tx] = status(900, {"InstructionError": [7, {"Custom": 1}]})
    failure = "Failed: custom program error 0x1 (insufficient funds) in instruction 7."
    assert chain.follower.find_inclusions([one], finality()).inclusions[one.tx].failure == failure


# --- What is signed by ------------------------------------------------------------------------------------------------
def test_nothing_is_signed_by_while_one_of_several_nodes_alone_says_what_is_final(nodes, truth, liar):
    nodes[liar].respond = lambda _: (503, b"")
    chain = tell(nodes[:2], truth)

    with pytest.raises(ChainUnavailable, match="The final block is unknown"):
        chain.observer.observe()


@pytest.mark.parametrize("blocks", [HEIGHT + 149, HEIGHT + 2_000, 0, -1, None], ids=str)
def test_a_blockhash_that_is_not_good_for_as_long_as_it_should_is_not_signed_with(nodes, truth, blocks):
    said = {"blockhash": truth.blockhash, "lastValidBlockHeight": blocks}
    chain = tell(nodes, truth, 0, getLatestBlockhash=lambda _: truth.context(said))

    assert chain.observer.observe()["lastValidBlockHeight"] == HEIGHT + 32 + 150
    assert "getLatestBlockhash" in nodes[1].asked


@pytest.mark.parametrize("count", [2, 3])
def test_a_blockhash_that_one_node_alone_knows_is_not_signed_with(nodes, truth, liar, count):
    # It could be another chain's, on which the same keys own another escrow.
    foreign = {"blockhash": some_hash(8), "lastValidBlockHeight": HEIGHT + 32 + 150}
    lies = {
        "getLatestBlockhash": lambda _: truth.context(foreign),
        "isBlockhashValid": lambda one, _: truth.context(one in (truth.blockhash, foreign["blockhash"])),
    }

    assert tell(nodes[:count], truth, liar, **lies).observer.observe()["blockhash"] == truth.blockhash


def test_two_nodes_that_know_no_blockhash_of_each_other_are_not_signed_by(nodes, truth, liar):
    chain = tell(nodes[:2], truth, liar, isBlockhashValid=lambda *_: truth.context(False))

    with pytest.raises(ChainUnavailable, match="could be another chain's"):
        chain.observer.observe()


@pytest.mark.parametrize("answer", [None, {"code": -32601, "message": "method not found"}, True], ids=str)
def test_a_node_that_does_not_say_which_blockhashes_it_knows_has_no_say(nodes, truth, liar, answer):
    assert tell(nodes, truth, liar, isBlockhashValid=answer).observer.observe()["blockhash"] == truth.blockhash
    with pytest.raises(ChainUnavailable):
        tell(nodes[:2], truth, liar, isBlockhashValid=answer).observer.observe()


def test_a_node_that_is_a_moment_behind_does_not_keep_the_others_from_signing(nodes, truth, liar):
    # Its newest blockhash the others know; theirs it does not know yet.
    behind = replace(truth, blockhash=OLD, final=FINAL - 10, height=HEIGHT - 10, newest=NEWEST - 10)
    others = replace(truth, usable={OLD})

    assert tell(nodes[:2], others, liar, **behind.answers()).observer.observe()["blockhash"] == OLD
    assert tell(nodes, others, liar, **behind.answers()).observer.observe()["blockhash"] in (OLD, truth.blockhash)


def test_of_a_blockhash_the_newest_state_of_a_node_is_asked(nodes, truth):
    asked = []

    def check(_: str, config: Any) -> Any:
        asked.append(config)
        return truth.context(True)

    tell(nodes[:1], truth, 0, isBlockhashValid=check).observer.observe()

    assert asked == [{"commitment": "processed"}]


def test_where_a_payment_can_be_first_is_not_one_nodes_word(nodes, truth):
    said = {"blockhash": truth.blockhash, "lastValidBlockHeight": HEIGHT + 32 + 150}
    chain = tell(nodes, truth, 0, getLatestBlockhash={"context": {"slot": 10**9}, "value": said})

    assert chain.observer.observe()["slot"] == FINAL


def test_what_is_signed_by_is_not_taken_from_a_node_that_stopped_following_the_chain(nodes, truth):
    yesterday = replace(truth, final=10, height=9, newest=11, time=truth.time - 86_400)

    assert tell(nodes, truth, 0, **yesterday.answers()).observer.observe()["lastValidBlockHeight"] == HEIGHT + 32 + 150


# --- Costs ------------------------------------------------------------------------------------------------------------
def spending(tx: str, lamports: int) -> dict[str, Any]:
    meta = {"preBalances": [10**9, 5], "postBalances": [10**9 - lamports, 5]}
    return {"transaction": {"signatures": [tx]}, "meta": meta}


@pytest.mark.parametrize("lie", [0, 10**9, None])
def test_a_node_alone_can_neither_inflate_the_cost_of_a_new_account_nor_hide_it(nodes, truth, lie):
    signed = sign(truth, replace(ORDER, asset=Asset.USDC))
    landed = TransactionQuery(signed.tx, signed.raw, TURN, [], 5, "5", most_cost=signed.most_cost)
    honest = spending(signed.tx, 2_049_280)
    lying = None if lie is None else spending(signed.tx, lie)
    truth.transactions[signed.tx] = honest

    chain = tell(nodes, truth, 0, getTransaction=lying)

    assert chain.prover.find_costs([landed], finality()) == {signed.tx: GasCost(Decimal("0.00204928"))}
    # Of two that contradict each other, neither is believed.
    assert adapter(*nodes[:2]).prover.find_costs([landed], finality()) == {}


def test_of_a_transaction_that_makes_no_account_the_cost_is_signed_and_no_node_is_asked(nodes, truth):
    signed = sign(truth)
    landed = TransactionQuery(signed.tx, signed.raw, TURN, [], 5, "5", most_cost=signed.most_cost)

    silent = tell(nodes, truth, 0)
    for node in nodes:
        node.respond = lambda _: (503, b"")

    assert silent.prover.find_costs([landed], finality()) == {signed.tx: GasCost(Decimal("0.00001"))}


# --- Fees -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("lie", [0, 10**9], ids=["nothing", "more than all"])
def test_a_node_alone_cannot_make_payments_dear_by_what_others_offer(nodes, liar, lie):
    truth = Truth(prices=[300] * 5)
    lying = [{"slot": 1, "prioritizationFee": lie}]

    state = tell(nodes[:2], truth, liar, getRecentPrioritizationFees=lying).observer.observe()

    assert state["unitPriceMicroLamports"] == min(lie, 300)


def test_no_price_is_known_while_only_one_of_several_nodes_says_any(nodes, truth):
    with pytest.raises(ChainUnavailable):
        tell(nodes[:2], truth, 0, getRecentPrioritizationFees=None).observer.observe()


def test_a_chain_whose_nodes_contradict_each_other_does_not_hide_that_anothers_do(nodes, truth, caplog):
    asked = sought(truth)
    truth.statuses[asked.tx] = status(900)
    one = tell(nodes[:2], truth, 0, getSignatureStatuses=lambda *_: truth.context([status(900, ERROR)]))
    served = replace(one.served, chain=replace(one.served.chain, aliases=("another",)))
    other = SolanaChain.of(served, SEED, one.signers)
    for chain in (one, other, one, other):
        chain.prover.find_fates([asked], finality())

    said = [message.split(":")[0] for message in caplog.messages if "contradict" in message]
    assert said == [one.served.chain.alias, "another"]
