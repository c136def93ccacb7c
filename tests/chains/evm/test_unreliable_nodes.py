"""Nodes that are away, slow, overloaded or confused: the next one is asked, and what nobody says stays unknown."""

import json
import logging
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import pytest

from chains.evm.contract_errors import read_revert
from chains.port import ChainUnavailable
from chains.rpc.node import Identity
from chains.rpc.nodes import Nodes
from chains.rpc.transport import RpcError
from tests.support.fake_nodes import Node

NOBODY = "http://127.0.0.1:1"
BUSY = {"code": -32005, "message": "daily request count exceeded"}
# For a node that hangs: enough for one that answers, however slow the machine is.
PATIENCE_S = 1
MakeNode = Callable[[], Node]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def make_node() -> Iterator[MakeNode]:
    nodes: list[Node] = []

    def make() -> Node:
        nodes.append(Node())
        nodes[-1].answers = {"eth_chainId": "0x1", "echo": lambda one: one}
        return nodes[-1]

    yield make
    for node in nodes:
        node.close()


@pytest.fixture
def node(make_node: MakeNode) -> Node:
    return make_node()


MAINNET = Identity("eth_chainId", 1)


def nodes_at(*nodes: Node, **options: Any) -> Nodes:
    return Nodes([node.url for node in nodes], **options)


def chain_id(nodes: Nodes) -> int:
    return nodes.read([("eth_chainId",)], lambda answers: int(answers[0], 16))


def echo(nodes: Nodes, count: int) -> list[Any]:
    return nodes.read([("echo", number) for number in range(count)], list)


def says(status: int, body: Any) -> Callable[[Any], tuple[int, bytes]]:
    return lambda _: (status, body if isinstance(body, bytes) else json.dumps(body).encode())


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


def test_what_no_node_has_is_null_even_if_nodes_call_that_an_error(make_node):
    node, other = make_node(), make_node()
    node.answers["eth_getBlockByNumber"] = {"code": -32000, "message": "header not found"}
    calls = [("eth_getBlockByNumber",), ("eth_chainId",)]

    assert nodes_at(node).read_known(calls, list) == [None, "0x1"]
    other.answers["eth_getBlockByNumber"] = "a block"
    assert nodes_at(node, other).read_known(calls, list) == ["a block", "0x1"]


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


# --- Batches ----------------------------------------------------------------------------------------------------------
def test_many_calls_go_in_requests_of_a_hundred(node):
    assert echo(nodes_at(node), 250) == list(range(250))
    assert [len(body) for body in node.requests] == [100, 100, 50]


@pytest.mark.parametrize("most", [1, 3, 7])
@pytest.mark.parametrize(
    "refusal",
    [
        says(200, {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "batch too large"}}),
        says(400, {"jsonrpc": "2.0", "id": 0, "error": {"code": -32600, "message": "batch too large"}}),
        says(200, [{"jsonrpc": "2.0", "id": 0, "error": {"code": -32600, "message": "batch too large"}}]),
        says(413, b"Request Entity Too Large"),
    ],
    ids=["one error", "HTTP 400", "a list of one error", "HTTP 413"],
)
def test_a_batch_that_is_too_large_for_a_node_is_halved_until_it_is_not(node, refusal, most):
    node.respond = lambda body: refusal(body) if isinstance(body, list) and len(body) > most else node.tell(body)

    assert echo(nodes_at(node), 10) == list(range(10))


def test_a_busy_node_is_not_asked_for_less_but_left_alone(make_node):
    busy, there = make_node(), make_node()
    busy.respond = says(200, {"jsonrpc": "2.0", "id": None, "error": BUSY})

    assert echo(nodes_at(busy, there), 10) == list(range(10))
    assert len(busy.requests) == 1


def test_answers_may_come_in_any_order(node):
    node.respond = lambda body: (200, json.dumps([node.answer(one) for one in body][::-1]).encode())

    assert echo(nodes_at(node), 10) == list(range(10))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda answers: answers[1:],
        lambda answers: [*answers, answers[0]],
        lambda answers: [answers[1], *answers[1:]],
        lambda answers: [{**answers[0], "id": 77}, *answers[1:]],
        lambda answers: [{**answers[0], "id": [0]}, *answers[1:]],
        lambda answers: [None, *answers[1:]],
    ],
    ids=["one missing", "one too many", "one twice", "a stranger's", "no id", "null"],
)
def test_a_batch_that_is_not_answered_call_by_call_is_not_an_answer(make_node, spoil):
    spoiled, there = make_node(), make_node()
    spoiled.respond = lambda body: (200, json.dumps(spoil([spoiled.answer(one) for one in body])).encode())

    assert echo(nodes_at(spoiled, there), 4) == [0, 1, 2, 3]
    assert there.asked == ["echo"] * 4


def test_a_call_that_fails_among_others_is_an_error_of_its_own(node):
    first, failed = nodes_at(node).ask([("echo", 5), ("no_such_method",)])

    assert first == 5
    assert isinstance(failed, RpcError)


def test_threads_get_the_answers_to_their_own_questions(node):
    nodes, start = nodes_at(node), threading.Barrier(8)

    def work(number):
        start.wait()
        return [nodes.read([("echo", number), ("echo", one)], list) for one in range(20)]

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(work, range(8)))

    assert found == [[[number, one] for one in range(20)] for number in range(8)]


# --- What an error says -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "wrap",
    [
        lambda data: data,
        lambda data: "Reverted " + data,
        lambda data: {"data": data},
        lambda data: {"message": "reverted", "txHash": "0x" + "ab" * 32, "data": data},
        lambda data: {"originalError": {"code": 3, "data": data, "message": "reverted"}},
    ],
    ids=["bare", "behind a word", "inside", "beside a hash", "deeper inside"],
)
def test_a_reverts_reason_is_found_wherever_a_node_puts_it(wrap):
    data = "0x08c379a0" + f"{32:064x}" + f"{4:064x}" + b"nope".ljust(32, b"\0").hex()

    assert read_revert(wrap(data), "execution reverted") == "Reverted: nope"


@pytest.mark.parametrize(
    ("data", "message", "reason"),
    [
        (None, "out of gas", "Reverted: out of gas"),
        ("0x", "execution reverted", "Reverted: execution reverted"),
        ("0x08c379a0", "execution reverted", "Reverted: execution reverted"),
        ("0xzz", "execution reverted", "Reverted: execution reverted"),
        ("0x4e487b71" + f"{0x11:064x}", "execution reverted", "Reverted: panic 0x11"),
        ("0xd93c0665", "execution reverted", "Reverted: EnforcedPause"),
        ("0x5274afe7" + "ab" * 32, "execution reverted", "Reverted: execution reverted"),
        ("0x5274afe7" + f"{0xAB:064x}", "", f"Reverted: SafeERC20FailedOperation(0x{0xAB:040x})"),
        ("0x118cdaa7" + f"{0xAB:064x}", "", f"Reverted: OwnableUnauthorizedAccount(0x{0xAB:040x})"),
        ("0x3ee5aeb5", "execution reverted", "Reverted: ReentrancyGuardReentrantCall"),
        (
            "0xe450d38c" + "".join(f"{value:064x}" for value in (0xAB, 5, 6)),
            "",
            f"Reverted: ERC20InsufficientBalance(0x{0xAB:040x}, 5, 6)",
        ),
        ("0x12345678", "execution reverted", "Reverted: execution reverted"),
        (None, "a\0b\ud800", "Reverted: a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"),
    ],
    ids=[
        *("no data", "nothing", "no text", "not hex", "panic"),
        *(
            "an error",
            "no error's data",
            "a token's refusal",
            "an owner's",
            "a lock's",
            "a token's own",
            "an unknown one",
        ),
        "what no database holds",
    ],
)
def test_a_revert_without_a_reason_says_what_the_node_says(data, message, reason):
    assert read_revert(data, message) == reason


# --- Secrets ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "respond", [None, says(429, b""), says(200, b"<html>"), says(200, {"id": 0, "error": BUSY}), says(200, {})]
)
def test_the_key_in_a_nodes_address_is_in_no_log_and_in_no_error(node, respond, caplog):
    caplog.set_level(logging.DEBUG)
    port = node.url.rpartition(":")[2] if respond else "1"
    node.respond = respond or node.tell
    nodes = Nodes([f"http://user:s3cr3t@127.0.0.1:{port}/v2/s3cr3t?key=s3cr3t"])

    with pytest.raises(ChainUnavailable) as caught:
        chain_id(nodes)

    assert caplog.text
    assert "s3cr3t" not in caplog.text
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))
    assert "s3cr3t" not in repr(nodes)


# --- One thing after another ------------------------------------------------------------------------------------------
def test_each_node_can_be_asked_by_itself_and_rests_for_all(make_node):
    first, second = make_node(), make_node()
    nodes = nodes_at(first, second)
    first.respond = says(503, b"")

    one, other = nodes.as_single_nodes()
    with pytest.raises(ChainUnavailable):
        chain_id(one)
    assert (chain_id(other), chain_id(nodes)) == (1, 1)
    assert (len(first.requests), len(second.requests)) == (1, 2)


def test_what_too_few_said_is_not_agreed_on(make_node):
    nodes = nodes_at(make_node(), make_node())

    assert nodes.require_agreement([5, 5], "it") == 5
    for heard, sentence in (([], "No node answered it"), ([5], "Only one node answered it"), ([5, 6], "contradict")):
        with pytest.raises(ChainUnavailable, match=sentence):
            nodes.require_agreement(heard, "it")
