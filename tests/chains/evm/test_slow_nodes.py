"""A node that makes a look at it as long as it can holds nobody up: it is left alone, and named."""

from typing import Any

import pytest

from chains.evm.answers import TRANSFER
from chains.evm.authorized_transfers import USED
from chains.port import ChainUnavailable, Contradiction
from chains.rpc.node import LONGEST_LOOK_S, LOOK_REST_S
from tests.support.deposits import none_of_ours
from tests.support.fake_nodes import ESCROW, TOKEN, Node, Truth, adapter, deposit, hash_of, logs_of, word
from tests.support.slow_nodes import ALMOST_TOO_LONG_S, FEW, slow_down
from tests.support.unreliable_nodes import nodes_at, says

NUMBER = 5
MANY = 10_000
PAYEE = "0x" + "33" * 20
REFUSED = {"code": -32005, "message": "query returned more than 20 results"}
NAMED = f"what can be told within {LONGEST_LOOK_S} s"


def used(number: int) -> dict[str, Any]:
    """Say that a payee took something in a transaction of block 5."""
    where = {"transactionHash": hash_of(10**6 + number), "blockNumber": hex(NUMBER), "blockHash": hash_of(NUMBER)}
    topics = [USED, word(ESCROW), hash_of(number)]
    return {"address": TOKEN, "topics": topics, "data": "0x", "logIndex": hex(2 * number), **where}


def receipt_of(tx: str) -> dict[str, Any]:
    number = int(tx, 16) - 10**6
    topics = [TRANSFER, word(ESCROW), word(PAYEE)]
    moved = used(number) | {"topics": topics, "data": word(1), "logIndex": hex(2 * number + 1)}
    return {"transactionHash": tx, "blockHash": hash_of(NUMBER), "logs": [used(number), moved]}


def crowded(truth: Truth, count: int) -> dict[str, Any]:
    """Answer as a node of a chain where payees took something so many times."""
    was_set = word(0) + word(0)[2:] + word(1)[2:]
    logs = logs_of(*map(used, range(count)))
    return truth.answers(eth_getLogs=logs, eth_call=was_set, eth_getTransactionReceipt=receipt_of)


def full(truth: Truth) -> dict[str, Any]:
    """Answer as a node that refuses logs, and tells of a block with more transactions than any has."""
    return truth.answers(
        eth_getLogs=REFUSED,
        eth_call=word(0),
        eth_getBlockReceipts=None,
        eth_getTransactionReceipt=lambda tx: {"transactionHash": tx, "blockHash": hash_of(NUMBER), "logs": []},
        eth_getBlockByNumber=lambda number, *_: (
            truth.block(number) | {"transactions": [hash_of(10**6 + one) for one in range(MANY)]}
        ),
    )


LIES = {"invented authorizations": lambda truth: crowded(truth, MANY), "invented transactions": full}


@pytest.fixture
def honest(nodes: list[Node], truth: Truth, liar: int) -> list[Node]:
    there = [node for node in nodes if node is not nodes[liar]]
    for node in there:
        node.answers = truth.answers(eth_getLogs=logs_of(deposit(NUMBER)), eth_call=word(0))
    return there


@pytest.mark.usefixtures("honest")
@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_node_that_drags_a_search_out_is_asked_a_few_times_named_and_then_left_alone(nodes, truth, liar, lie):
    nodes[liar].answers = lie(truth)
    chain = adapter(*nodes)
    clock = slow_down(chain, nodes[liar])

    for _ in range(3):
        found = chain.escrow.search(NUMBER, NUMBER, none_of_ours)
        assert [one.block_number for one in found.deposits] == [NUMBER]
    # The check of its chain is one more.
    assert len(nodes[liar].requests) <= 1 + FEW
    assert chain.inspector.take_contradictions() == [Contradiction(liar + 1, NAMED)]

    before = len(nodes[liar].requests)
    clock.now += LOOK_REST_S
    chain.escrow.search(NUMBER, NUMBER, none_of_ours)
    assert before < len(nodes[liar].requests) <= before + 1 + FEW


def test_a_node_that_answers_in_the_very_end_is_left_alone_too(nodes, truth, honest, liar):
    nodes[liar].answers = honest[0].answers | {"eth_getLogs": REFUSED, "eth_getBlockReceipts": None}
    chain = adapter(*nodes)
    slow_down(chain, nodes[liar])

    for _ in range(2):
        assert len(chain.escrow.search(NUMBER, NUMBER, none_of_ours).deposits) == 1
    assert chain.inspector.take_contradictions() == [Contradiction(liar + 1, NAMED)]


@pytest.mark.usefixtures("honest")
def test_slow_nodes_without_which_too_few_would_answer_are_neither_named_nor_left_alone(nodes, truth, liar):
    nodes[liar].answers = crowded(truth, MANY)
    pair = [nodes[liar], nodes[2]]
    chain = adapter(*pair)
    clock = slow_down(chain, nodes[liar])
    with pytest.raises(ChainUnavailable):
        chain.escrow.search(NUMBER, NUMBER, none_of_ours)

    nodes[liar].answers = nodes[2].answers
    clock.now += 0.5  # the rest after any failure

    assert len(chain.escrow.search(NUMBER, NUMBER, none_of_ours).deposits) == 1
    assert chain.inspector.take_contradictions() == []


def test_what_payees_took_is_read_in_full_in_a_block_and_refused_in_a_range_that_can_be_halved(nodes, truth):
    nodes[0].answers = crowded(truth, 1_001)
    chain = adapter(nodes[0])

    with pytest.raises(ChainUnavailable):
        chain.escrow.search(NUMBER - 1, NUMBER, none_of_ours)
    assert "eth_getTransactionReceipt" not in nodes[0].asked
    assert len(chain.escrow.search(NUMBER, NUMBER, none_of_ours).outflows) == 1_001


@pytest.mark.parametrize("silent", [{"eth_getLogs"}, {"eth_getBlockReceipts"}, {"eth_getLogs", "eth_getBlockReceipts"}])
def test_a_node_that_does_not_answer_one_question_of_a_look_is_asked_otherwise_in_the_same(nodes, truth, silent):
    node = nodes[0]
    node.answers = full(truth) | {"eth_getBlockByNumber": with_one_transaction(truth)}

    def respond(body: Any) -> Any:
        calls = body if isinstance(body, list) else [body]
        return (503, b"") if silent & {call["method"] for call in calls} else node.tell(body)

    node.respond = respond
    chain = adapter(node)
    slow_down(chain)

    assert chain.escrow.search(NUMBER, NUMBER, none_of_ours).deposits == []
    assert node.asked[-1] == "eth_getTransactionReceipt"


def test_a_node_that_rests_is_not_asked_otherwise_either(nodes, truth):
    node, chain = nodes[0], adapter(nodes[0])
    node.answers = truth.answers()
    slow_down(chain)
    node.respond = says(503, b"")
    with pytest.raises(ChainUnavailable):
        chain.follower.find_finality()

    before = len(node.requests)
    with pytest.raises(ChainUnavailable):
        chain.escrow.search(NUMBER, NUMBER, none_of_ours)
    assert len(node.requests) == before


def with_one_transaction(truth: Truth) -> Any:
    return lambda number, *_: truth.block(number) | {"transactions": [hash_of(10**6)]}


def test_a_node_that_refuses_each_batch_in_its_own_good_time_is_given_up(nodes):
    node = nodes[0]
    node.answers = {"echo": lambda one: one}
    refuse = says(200, {"error": {"code": -32600, "message": "batch too large"}})
    now = [0.0]

    def respond(body: Any) -> Any:
        now[0] += ALMOST_TOO_LONG_S
        return refuse(body) if isinstance(body, list) else node.tell(body)

    node.respond = respond
    with pytest.raises(ChainUnavailable):
        nodes_at(node, clock=lambda: now[0]).ask([("echo", number) for number in range(100)])
    assert len(node.requests) < 10
