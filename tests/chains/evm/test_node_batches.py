"""Calls that go to a node together, what its errors say, and what its address must not give away."""

import json
import logging
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from chains.evm.contract_errors import read_revert
from chains.port import ChainUnavailable
from chains.rpc.nodes import Nodes
from chains.rpc.replies import Reply
from chains.rpc.transport import RpcError
from tests.support.unreliable_nodes import chain_id, nodes_at, says

BUSY = {"code": -32005, "message": "daily request count exceeded"}


def echo(nodes: Nodes, count: int) -> list[Any]:
    return nodes.read([("echo", number) for number in range(count)], list)


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
    first, second = (reply.node for reply in nodes.ask_each([("echo", 1)]))

    assert nodes.agreement.reach([Reply(first, 5), Reply(second, 5)], "it") == 5
    for heard, sentence in (
        ([], "No node answered it"),
        ([Reply(first, 5)], "Only one node answered it"),
        ([Reply(first, 5), Reply(second, 6)], "contradict"),
    ):
        with pytest.raises(ChainUnavailable, match=sentence):
            nodes.agreement.reach(heard, "it")
