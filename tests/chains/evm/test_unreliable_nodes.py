"""Nodes that are away, slow, overloaded or confused: the next one is asked, and what nobody says stays unknown."""

from contextlib import nullcontext

import pytest

from chains.port import ChainUnavailable
from chains.rpc.node import Identity
from chains.rpc.nodes import Nodes
from chains.rpc.transport import RpcError
from tests.support.unreliable_nodes import chain_id, nodes_at, says

NOBODY = "http://127.0.0.1:1"
BUSY = {"code": -32005, "message": "daily request count exceeded"}

# For a node that hangs: enough for one that answers, however slow the machine is.
PATIENCE_S = 1


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


MAINNET = Identity("eth_chainId", 1)


# --- Failover ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "respond",
    [
        says(200, b""),
        says(200, b"<html>"),
        says(200, b"\xff\xfe"),
        says(200, 7),
        says(200, []),
        says(200, [1]),
        says(200, {"jsonrpc": "2.0", "id": 0}),
        says(200, {"jsonrpc": "2.0", "id": 9, "result": "0x2"}),
        says(200, {"jsonrpc": "2.0", "id": 0, "result": "two"}),
        says(200, {"jsonrpc": "2.0", "id": 0, "result": None}),
        says(200, {"jsonrpc": "2.0", "id": 0, "error": BUSY}),
        says(200, {"jsonrpc": "2.0", "id": 0, "error": "out of order"}),
        says(302, b""),
        says(400, b"Bad Request"),
        says(401, {"jsonrpc": "2.0", "id": 0, "error": {"code": -32000, "message": "who are you"}}),
        says(429, {"jsonrpc": "2.0", "id": 0, "result": "0x2"}),
        says(500, b""),
        says(503, {"jsonrpc": "2.0", "id": 0, "result": "0x2"}),
    ],
    ids=[
        "nothing",
        "HTML",
        "no text",
        "a number",
        "an empty list",
        "a list of a number",
        "no result",
        "another call's answer",
        "not a number",
        "null",
        "busy",
        "an error of another form",
        "elsewhere",
        "HTTP 400",
        "HTTP 401",
        "HTTP 429",
        "HTTP 500",
        "HTTP 503",
    ],
)
def test_the_next_node_is_asked_when_one_answers_with(make_node, respond):
    confused, there = make_node(), make_node()
    confused.respond = respond

    assert chain_id(nodes_at(confused, there)) == 1
    with pytest.raises(ChainUnavailable):
        chain_id(nodes_at(confused))


def test_the_next_node_is_asked_when_nobody_is_there(node):
    assert chain_id(Nodes([NOBODY, node.url])) == 1
    with pytest.raises(ChainUnavailable):
        chain_id(Nodes([NOBODY]))


def test_a_node_of_another_chain_is_not_asked_anything_else(make_node):
    strange, ours = make_node(), make_node()
    for one, number in ((strange, 5), (ours, 1)):
        one.answers = {"eth_chainId": hex(number), "eth_blockNumber": hex(number)}
    height = [("eth_blockNumber",)]

    assert nodes_at(strange, ours, identity=MAINNET).read(height, lambda answers: int(answers[0], 16)) == 1
    assert strange.asked == ["eth_chainId"]
    with pytest.raises(ChainUnavailable):
        nodes_at(strange, identity=MAINNET).ask(height)


@pytest.mark.parametrize("answer", ["0xa4b1", "0xA4B1", "0x0a4b1"])
def test_the_number_of_a_chain_may_be_written_in_any_hex(node, answer):
    node.answers = {"eth_chainId": answer, "eth_blockNumber": "0x5"}

    assert nodes_at(node, identity=Identity("eth_chainId", 42_161)).ask([("eth_blockNumber",)]) == ["0x5"]


@pytest.mark.parametrize("answer", [None, 1, True, "", "0x", "one", [], {}], ids=str)
def test_a_node_that_does_not_say_the_number_of_its_chain_counts_as_away(node, answer):
    node.answers = {"eth_chainId": answer, "eth_blockNumber": "0x5"}

    with pytest.raises(ChainUnavailable):
        nodes_at(node, identity=MAINNET).ask([("eth_blockNumber",)])


@pytest.mark.parametrize("is_prefix", [True, False])
def test_the_genesis_hash_of_a_chain_has_one_form_only(node, is_prefix):
    node.answers = {"getGenesisHash": "5EykT4", "getSlot": 5}

    for expected, is_met in (("5EykT4", True), ("5eykt4", False)):
        identity = Identity("getGenesisHash", expected, is_prefix=is_prefix)
        with nullcontext() if is_met else pytest.raises(ChainUnavailable):
            assert nodes_at(node, identity=identity).ask([("getSlot",)]) == [5]


def test_a_node_that_changes_its_chain_is_noticed_within_a_minute(node):
    now = [0.0]
    node.answers = {"eth_chainId": "0x1", "eth_blockNumber": "0x5"}
    nodes = nodes_at(node, identity=MAINNET, clock=lambda: now[0])
    nodes.ask([("eth_blockNumber",)])
    node.answers["eth_chainId"] = "0x2"

    now[0] = 59.0
    nodes.ask([("eth_blockNumber",)])
    assert node.asked.count("eth_chainId") == 1

    now[0] = 61.0
    with pytest.raises(ChainUnavailable):
        nodes.ask([("eth_blockNumber",)])


def test_the_next_node_is_asked_when_one_hangs(make_node):
    hanging, there = make_node(), make_node()
    hanging.respond = hanging.hang

    assert chain_id(nodes_at(hanging, there, timeout_s=PATIENCE_S)) == 1


def test_the_next_node_is_asked_when_one_never_comes_to_an_end(make_node):
    dripping, there = make_node(), make_node()
    # Every read brings a byte, for minutes.
    dripping.respond = says(200, b" " * 10_000 + b'{"jsonrpc": "2.0", "id": 0, "result": "0x2"}')
    dripping.is_dripping = True

    assert chain_id(nodes_at(dripping, there, timeout_s=PATIENCE_S)) == 1


def test_a_node_that_needs_several_reads_is_not_away(node):
    node.is_dripping = True

    assert chain_id(nodes_at(node)) == 1


@pytest.mark.parametrize("status", [200, 400, 500])
def test_an_error_that_is_an_answer_does_not_make_a_node_away(make_node, status):
    node, other = make_node(), make_node()
    error = {"code": 3, "message": "execution reverted", "data": "0x08c379a0"}
    node.respond = says(status, {"jsonrpc": "2.0", "id": None, "error": error})
    nodes = nodes_at(node, other)

    for _ in range(2):
        (answer,) = nodes.ask([("eth_call",)])
        assert isinstance(answer, RpcError)
        assert (str(answer), answer.code, answer.data) == ("execution reverted", 3, "0x08c379a0")
    assert other.asked == []


def test_too_many_logs_do_not_make_a_node_away(node):
    node.answers["eth_getLogs"] = {"code": -32005, "message": "query returned more than 10000 results"}
    nodes = nodes_at(node)

    with pytest.raises(ChainUnavailable):
        nodes.read_agreed([("eth_getLogs", {})], list)
    assert chain_id(nodes) == 1


# --- Back-off ---------------------------------------------------------------------------------------------------------
def test_a_node_that_failed_is_left_alone_twice_as_long_each_time_and_comes_back(make_node):
    failing, there = make_node(), make_node()
    clock = Clock()
    failing.respond = says(503, b"")
    nodes = nodes_at(failing, there, clock=clock)
    asked_after = []
    for step in range(1, 257):
        before = len(failing.requests)
        chain_id(nodes)
        if len(failing.requests) > before:
            asked_after.append(clock.now - 100)
        clock.now = 100 + step / 4

    assert asked_after == [0, 0.5, 1.5, 3.5, 7.5, 15.5, 30.5, 45.5, 60.5]
    clock.now += 15
    failing.respond, there.asked = failing.tell, []
    assert chain_id(nodes) == 1
    assert there.asked == []
    # It is trusted again: its next failure is a first one.
    failing.respond = says(503, b"")
    chain_id(nodes)
    failing.respond = failing.tell
    clock.now += 0.5
    assert chain_id(nodes) == 1
    assert there.asked == ["eth_chainId"]


def test_while_all_nodes_rest_nothing_is_known(node):
    clock = Clock()
    nodes = nodes_at(node, clock=clock)
    node.respond = says(503, b"")
    with pytest.raises(ChainUnavailable):
        chain_id(nodes)
    node.respond = node.tell

    with pytest.raises(ChainUnavailable):
        chain_id(nodes)
    clock.now += 0.5
    assert chain_id(nodes) == 1
