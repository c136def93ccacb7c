"""What is final, and how late it is there, is not what a node alone says."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chains.port import ChainUnavailable, Contradiction
from tests.support.deposits import none_of_ours
from tests.support.fake_nodes import (
    NOT_THERE,
    Truth,
    adapter,
    block,
    fee_history,
    hash_of,
    tell,
)
from tests.support.fates import UNKNOWN, lone_fates
from tests.support.lying_evm_nodes import FINAL, TX, finality, sought


@pytest.mark.parametrize(
    ("head", "age_s"), [(10**6, 0), (10**6, 10**6), (3, 10**6)], ids=["ahead", "ahead and stale", "stale"]
)
def test_a_node_alone_does_not_say_what_is_final(nodes, truth, liar, head, age_s):
    def lie(number: str, *_: Any) -> Any:
        return block(head, truth.time - age_s) if number == "latest" else truth.block(number)

    assert tell(nodes, truth, liar, eth_getBlockByNumber=lie).follower.find_finality().block_number == FINAL


def test_a_node_that_is_a_little_behind_delays_finality(nodes, truth, liar):
    def behind(number: str, *_: Any) -> Any:
        return block(9, truth.time - 3) if number == "latest" else truth.block(number)

    assert tell(nodes[:2], truth, liar, eth_getBlockByNumber=behind).follower.find_finality().block_number == 7
    assert tell(nodes, truth, liar, eth_getBlockByNumber=behind).follower.find_finality().block_number == FINAL


def test_one_of_several_nodes_alone_makes_nothing_final(nodes, truth):
    chain = tell(nodes[:2], truth, 0)
    nodes[1].respond = lambda _: (503, b"")

    assert chain.follower.find_finality().block_number == 0
    with pytest.raises(ChainUnavailable):
        chain.escrow.search(1, FINAL, none_of_ours)
    with pytest.raises(ChainUnavailable):
        chain.escrow.find_holdings(FINAL)
    assert lone_fates(chain.prover.find_fates([sought(truth)], finality())) == {TX: UNKNOWN}


@pytest.mark.parametrize("lie", [{"timestamp": "0x0"}, {"hash": hash_of(99)}], ids=["time", "hash"])
def test_nothing_is_final_while_two_nodes_contradict_each_other_about_the_block(nodes, truth, liar, lie):
    with pytest.raises(ChainUnavailable):
        tell(
            nodes[:2], truth, liar, eth_getBlockByNumber=saying_of_the_final_block(truth, lie)
        ).follower.find_finality()


@pytest.mark.parametrize("lie", [{"timestamp": "0x0"}, {"hash": hash_of(99)}], ids=["time", "hash"])
def test_what_two_nodes_say_of_the_final_block_is_so(nodes, truth, liar, lie):
    chain = tell(nodes, truth, liar, eth_getBlockByNumber=saying_of_the_final_block(truth, lie))
    said = chain.follower.find_finality()

    assert (said.block_number, int(said.time.timestamp())) == (FINAL, int(truth.time) - 2)
    assert chain.inspector.take_contradictions() == [Contradiction(liar + 1, f"block {FINAL}")]


def saying_of_the_final_block(truth: Truth, lie: dict[str, Any]) -> Any:
    def say(number: str, *_: Any) -> Any:
        found = truth.block(number)
        return found and found | (lie if number == hex(FINAL) else {})

    return say


@pytest.mark.parametrize("seconds", [-3600, 3600], ids=["earlier", "later"])
def test_the_time_by_which_money_is_given_back_is_the_earliest_that_any_node_says(nodes, truth, liar, seconds):
    """However many lie: as long as one does not, and answers."""
    honest = int(truth.time) - 2
    lie = saying_of_the_final_block(truth, {"timestamp": hex(honest + seconds)})

    one = tell(nodes, truth, liar, eth_getBlockByNumber=lie).follower.find_finality()
    for node in nodes:
        node.answers = truth.answers(eth_getBlockByNumber=lie)
    nodes[liar].answers = truth.answers()
    two = adapter(*nodes).follower.find_finality()

    earliest = min(honest, honest + seconds)
    assert [int(said.time_by_all.timestamp()) for said in (one, two)] == [earliest, earliest]
    assert int(one.time.timestamp()) == honest
    assert int(two.time.timestamp()) == honest + seconds


@pytest.mark.parametrize("head", [3, 8, 40, 10**6])
def test_a_node_that_lies_about_heights_holds_up_no_more_than_what_is_given_back(nodes, truth, liar, head):
    def lie(number: str, *_: Any) -> Any:
        return block(head, truth.time) if number == "latest" else truth.block(number)

    chain = tell(nodes, truth, liar, eth_getBlockByNumber=lie)
    said = chain.follower.find_finality()

    assert (said.block_number, said.newest) == (FINAL, 12)
    assert [one.node for one in chain.inspector.take_contradictions()] == ([liar + 1] if head < FINAL else [])
    # Of a block that it does not call final yet, a node may say something else later.
    assert (int(said.time_by_all.timestamp()) == int(truth.time) - 2) == (head > FINAL)


def test_a_node_that_is_a_little_behind_is_not_named(nodes, truth, liar):
    def behind(number: str, *_: Any) -> Any:
        return truth.block("0x5" if number == "latest" else number)

    chain = tell(nodes, truth, liar, eth_getBlockByNumber=behind)
    said = chain.follower.find_finality()

    assert said.block_number == FINAL
    assert said.time_by_all < said.time
    assert chain.inspector.take_contradictions() == []


@pytest.mark.parametrize(("late", "is_named"), [(timedelta(minutes=10), False), (timedelta(hours=1), True)])
def test_a_node_that_calls_final_what_is_far_older_than_what_the_others_do_is_named(nodes, truth, liar, late, is_named):
    first = block(1, truth.time - late.total_seconds())

    def say(number: str, final: Any) -> Any:
        return {"0x1": first, "finalized": final}.get(number) or truth.block(number)

    for node in nodes:
        final = first if node is nodes[liar] else truth.block(hex(FINAL))
        node.answers = truth.answers(eth_getBlockByNumber=lambda number, _, final=final: say(number, final))
    chain = adapter(*nodes, finality_depth=None)
    said = chain.follower.find_finality()

    assert (said.block_number, hex(int(said.time_by_all.timestamp()))) == (FINAL, first["timestamp"])
    named = [Contradiction(liar + 1, "how far the chain is")] if is_named else []
    assert chain.inspector.take_contradictions() == named


def test_nodes_that_lie_alike_about_heights_give_nothing_back(nodes, truth):
    def lie(number: str, *_: Any) -> Any:
        wanted = 10**6 if number == "latest" else int(number, 16)
        return block(wanted, truth.time)

    for node in nodes[1:]:
        node.answers = truth.answers(eth_getBlockByNumber=lie)
    nodes[0].answers = truth.answers()

    said = adapter(*nodes).follower.find_finality()

    assert said.block_number == 10**6 - 2
    assert said.time_by_all == datetime.fromtimestamp(0, UTC)


@pytest.mark.parametrize(
    "answer",
    [None, NOT_THERE, {}, block(5, 2**80), {"number": "5", "hash": hash_of(5), "timestamp": "0x5"}],
    ids=["null", "error", "empty", "a time that no calendar has", "no quantity"],
)
def test_a_chain_without_a_block_that_can_be_read_is_away(nodes, answer):
    nodes[0].answers = {"eth_getBlockByNumber": answer, "eth_feeHistory": fee_history("0x4", "0x5")}

    with pytest.raises(ChainUnavailable):
        adapter(nodes[0]).follower.find_finality()
    with pytest.raises(ChainUnavailable):
        adapter(nodes[0]).observer.observe()
