"""Blocks that a node refuses to tell of are read otherwise, whole and from the right block, or not at all."""

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest

from chains.evm.answers import TRANSFER
from chains.evm.authorized_transfers import USED
from chains.evm.events import DEPOSITED
from chains.port import ChainUnavailable
from chains.rpc import transport
from tests.support.deposits import none_of_ours
from tests.support.evm_escrow import call
from tests.support.fake_nodes import ESCROW, TOKEN, Node, Truth, adapter, deposit, hash_of, logs_of, word
from tests.support.lying_evm_nodes import FINAL

NUMBER = 5
LIMITS = call("authorizationLimits(address)", TOKEN)
TOO_MANY = {"code": -32005, "message": "query returned more than 20 results"}
REVERTED = {"code": 3, "message": "execution reverted"}
OURS, OTHERS, FAILED = hash_of(1005), hash_of(71), hash_of(72)


def block_receipt(tx: str, *logs: dict[str, Any], **changes: Any) -> dict[str, Any]:
    where = {"transactionHash": tx, "blockHash": hash_of(NUMBER), "blockNumber": hex(NUMBER)}
    return {**where, "status": "0x1", "logs": [{**log, "transactionHash": tx} for log in logs], **changes}


def in_block(log: dict[str, Any], index: int) -> dict[str, Any]:
    return {**log, "blockNumber": hex(NUMBER), "blockHash": hash_of(NUMBER), "logIndex": hex(index)}


STRANGE = in_block({"address": TOKEN, "topics": [], "data": "0x"}, 0)
RECEIPTS = {
    OTHERS: block_receipt(OTHERS, STRANGE, in_block(deposit(NUMBER, address=TOKEN), 1)),
    FAILED: block_receipt(FAILED, status="0x0"),
    OURS: block_receipt(OURS, in_block(deposit(NUMBER), 2)),
}


def refusing(truth: Truth, **changes: Any) -> dict[str, Any]:
    """Answer as a node that refuses all logs, of whatever block, and has the receipts."""

    def block(number: str, *_: Any) -> Any:
        found = truth.block(number)
        return found and found | {"transactions": list(RECEIPTS)}

    known = {"eth_getBlockByNumber": block, "eth_getTransactionReceipt": RECEIPTS.get}
    return truth.answers(eth_getLogs=TOO_MANY, eth_getBlockReceipts=list(RECEIPTS.values()), **known) | changes


@pytest.fixture
def node(nodes: list[Node]) -> Node:
    return nodes[0]


def search(node: Node) -> list[tuple[str, int]]:
    found = adapter(node).escrow.search(NUMBER, NUMBER, none_of_ours)
    return [(one.tx, one.log_index) for one in found.deposits]


# --- A refused block --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("answer", [TOO_MANY, None, {"code": -32000, "message": "query timeout exceeded"}], ids=str)
def test_a_single_block_whose_logs_a_node_refuses_is_read_by_its_receipts(node, truth, answer):
    node.answers = refusing(truth, eth_getLogs=answer)

    assert search(node) == [(OURS, 2)]
    assert "eth_getTransactionReceipt" not in node.asked


@pytest.mark.parametrize(
    "answer",
    [
        {"code": -32601, "message": "method not found"},
        None,
        [],
        list(RECEIPTS.values())[1:],
        list(RECEIPTS.values())[::-1],
        [*RECEIPTS.values(), block_receipt(hash_of(9))],
        [*list(RECEIPTS.values())[:2], block_receipt(OURS, blockHash=hash_of(99))],
    ],
    ids=["unknown", "null", "none", "one left out", "another order", "one too many", "of another block"],
)
def test_what_are_not_the_receipts_of_the_block_is_replaced_by_each_transactions_own(node, truth, answer):
    node.answers = refusing(truth, eth_getBlockReceipts=answer)

    assert search(node) == [(OURS, 2)]
    assert node.asked.count("eth_getTransactionReceipt") == len(RECEIPTS)


@pytest.mark.parametrize(
    "lie",
    [
        lambda tx: None if tx == OURS else RECEIPTS[tx],
        lambda _: RECEIPTS[OTHERS],
        lambda tx: RECEIPTS[tx] | {"blockHash": hash_of(99)},
        lambda tx: RECEIPTS[tx] | {"logs": None},
    ],
    ids=["one is missing", "another one's", "of another block", "no logs"],
)
def test_a_node_whose_receipts_are_not_whole_says_nothing(node, truth, lie):
    node.answers = refusing(truth, eth_getBlockReceipts=None, eth_getTransactionReceipt=lie)

    with pytest.raises(ChainUnavailable):
        search(node)


def test_several_blocks_that_a_node_refuses_are_not_read_by_their_receipts(node, truth):
    node.answers = refusing(truth)

    with pytest.raises(ChainUnavailable):
        adapter(node).escrow.search(NUMBER, NUMBER + 1, none_of_ours)
    assert "eth_getBlockReceipts" not in node.asked


def test_a_node_that_has_not_the_block_is_asked_for_no_receipts(node, truth):
    node.answers = refusing(truth, eth_getBlockByNumber=None)

    with pytest.raises(ChainUnavailable):
        search(node)
    assert "eth_getBlockReceipts" not in node.asked


def test_nodes_that_read_a_block_in_different_ways_find_the_same_there(nodes, truth):
    nodes[0].answers = refusing(truth)
    nodes[1].answers = refusing(truth, eth_getBlockReceipts=None)
    nodes[2].answers = refusing(truth, eth_getLogs=logs_of(in_block(deposit(NUMBER), 2)))

    found = adapter(*nodes).escrow.search(NUMBER, NUMBER, none_of_ours)

    assert [one.tx for one in found.deposits] == [OURS]
    assert not found.is_disputed


@pytest.mark.parametrize("slow", ["eth_getLogs", "eth_getBlockReceipts"])
def test_a_node_that_never_answers_a_question_about_a_block_is_asked_another_one(node, truth, slow):
    node.answers = refusing(truth)
    chain = adapter(node)

    def respond(body: Any) -> tuple[int, bytes]:
        asked = [one["method"] for one in body] if isinstance(body, list) else [body["method"]]
        return (503, b"") if slow in asked else node.tell(body)

    node.respond = respond
    found: list[str] = []
    for _ in range(40):  # as the search is repeated: the node rests in between, and longer from what it never answers
        clock_on(chain)
        with suppress(ChainUnavailable):
            chain.follower.find_finality()
            found += [one.tx for one in chain.escrow.search(NUMBER, NUMBER, none_of_ours).deposits]

    assert set(found) == {OURS}


def clock_on(chain: Any) -> None:
    """Let a second pass for the nodes."""
    for one in chain.nodes._nodes:
        now = one._clock()
        one._clock = lambda now=now: now + 1.0


def test_an_answer_that_is_too_large_counts_as_refused_and_what_was_asked_for_is_asked_in_parts(
    node, truth, monkeypatch
):
    node.answers = refusing(truth)
    whole = len(node.tell({"id": 0, "method": "eth_getBlockReceipts", "params": []})[1])
    monkeypatch.setattr(transport, "MOST_BYTES", whole - 100)

    assert search(node) == [(OURS, 2)]
    assert node.asked[-len(RECEIPTS) :] == ["eth_getTransactionReceipt"] * len(RECEIPTS)


# --- What is asked for ------------------------------------------------------------------------------------------------
def limits(was_set: int) -> Callable[..., Any]:
    def answer(wanted: dict[str, str], _block: str) -> Any:
        if wanted["data"] != LIMITS:
            return word(0)
        return word(0) + word(0)[2:] + word(was_set)[2:]

    return answer


def filters_of(node: Node) -> list[dict[str, Any]]:
    calls = [call for body in node.requests for call in (body if isinstance(body, list) else [body])]
    return [call["params"][0] for call in calls if call["method"] == "eth_getLogs"]


def test_nothing_is_asked_for_that_strangers_emit_for_nothing(node, truth):
    node.answers = truth.answers(eth_getLogs=[], eth_call=limits(1))

    chain = adapter(node)
    chain.escrow.search(1, FINAL, none_of_ours)
    chain.escrow.search(1, FINAL, none_of_ours)

    for wanted in filters_of(node):
        kinds = wanted["topics"][0]
        assert TRANSFER not in kinds
        # Of deposits, only those of tokens that are served.
        assert DEPOSITED not in kinds or (kinds, wanted["topics"][2]) == ([DEPOSITED], [word(TOKEN)])
        # Of tokens, only what nobody emits without both keys.
        assert wanted["address"] == [ESCROW] or wanted == {
            "address": [TOKEN], "topics": [[USED], [word(ESCROW)]], "fromBlock": "0x1", "toBlock": hex(FINAL)
        }  # fmt: skip


@pytest.mark.parametrize("answer", [limits(0), REVERTED, "0x"], ids=["never set", "an earlier release", "no contract"])
def test_tokens_are_not_asked_at_all_where_the_owner_never_let_payees_take_them(node, truth, answer):
    node.answers = truth.answers(eth_getLogs=[], eth_call=answer)

    adapter(node).escrow.search(1, FINAL, none_of_ours)

    assert [wanted["address"] for wanted in filters_of(node)] == [[ESCROW], [ESCROW]]


def test_a_node_that_cannot_tell_whether_payees_may_take_tokens_says_nothing(node, truth):
    node.answers = truth.answers(eth_getLogs=[], eth_call={"code": -32000, "message": "header not found"})

    with pytest.raises(ChainUnavailable):
        adapter(node).escrow.search(1, FINAL, none_of_ours)


def test_what_one_node_says_was_allowed_is_asked_of_all_and_never_again_whether_it_was(nodes, truth):
    for node in nodes:
        node.answers = truth.answers(eth_getLogs=[], eth_call=limits(0))
    nodes[0].answers["eth_call"] = limits(1)
    chain = adapter(*nodes)

    chain.escrow.search(1, FINAL, none_of_ours)
    before = [node.asked.count("eth_call") for node in nodes]
    chain.escrow.search(1, FINAL, none_of_ours)

    assert all([TOKEN] in [wanted["address"] for wanted in filters_of(node)] for node in nodes)
    assert [node.asked.count("eth_call") for node in nodes] == before


# --- What payees took -------------------------------------------------------------------------------------------------
PAYEE, NONCE = "0x" + "33" * 20, hash_of(99)
TAKEN = [
    in_block({"address": TOKEN, "topics": [USED, word(ESCROW), NONCE], "data": "0x"}, 1),
    in_block({"address": TOKEN, "topics": [TRANSFER, word(ESCROW), word(PAYEE)], "data": word(1_500_000)}, 2),
]
# Anybody can put such ones beside it.
NOTHING = [
    in_block({"address": TOKEN, "topics": [TRANSFER, word(ESCROW), word(TOKEN)], "data": word(0)}, index)
    for index in (0, 3)
]


def taking(truth: Truth, receipt: Any) -> dict[str, Any]:
    used = {**TAKEN[0], "transactionHash": OTHERS}
    return truth.answers(eth_getLogs=logs_of(used), eth_call=limits(1), eth_getTransactionReceipt=lambda _: receipt)


def test_what_a_payee_took_is_read_in_the_receipt_of_its_transaction(node, truth):
    node.answers = taking(truth, block_receipt(OTHERS, NOTHING[0], *TAKEN, NOTHING[1], STRANGE))

    (found,) = adapter(node).escrow.search(1, FINAL, none_of_ours).outflows

    assert (found.tx, found.log_index, found.escrow_id) == (OTHERS, 1, NONCE)
    assert (found.amount, found.recipient.lower()) == (Decimal("1.5"), PAYEE)


@pytest.mark.parametrize(
    "receipt",
    [
        None,
        block_receipt(OTHERS),
        block_receipt(OTHERS, TAKEN[1]),
        block_receipt(OURS, *TAKEN),
        block_receipt(OTHERS, *TAKEN, blockHash=hash_of(98)),
    ],
    ids=["none", "empty", "no authorization", "another one's", "of another block"],
)
def test_a_node_whose_receipt_denies_what_its_logs_say_says_nothing(nodes, truth, receipt):
    nodes[0].answers = taking(truth, receipt)
    with pytest.raises(ChainUnavailable):
        adapter(nodes[0]).escrow.search(1, FINAL, none_of_ours)

    for node in nodes[1:]:
        node.answers = taking(truth, block_receipt(OTHERS, *TAKEN))
    found = adapter(*nodes).escrow.search(1, FINAL, none_of_ours)
    assert [one.escrow_id for one in found.outflows] == [NONCE]


def test_two_nodes_of_three_say_what_a_payee_took(nodes, truth):
    other = {**TAKEN[1], "data": word(1)}
    for node in nodes:
        node.answers = taking(truth, block_receipt(OTHERS, *TAKEN))
    nodes[0].answers = taking(truth, block_receipt(OTHERS, TAKEN[0], other))

    found = adapter(*nodes).escrow.search(1, FINAL, none_of_ours)
    assert [one.amount for one in found.outflows] == [Decimal("1.5")]
    assert found.is_disputed
