"""Nodes that are away, behind, lost or overloaded: whatever they answer, unknown is never failed."""

import json
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.conf import settings

from allowance.kernel.assets import Asset
from allowance.kernel.times import utc_now
from payments.chains.base import ChainUnavailable, Finality, Order, TransactionRefused
from payments.chains.evm import EvmChain
from services.chains import ServedChain, find_chain
from tests.chains import LOCALNET, TRANSFER

ESCROW = "0x" + "11" * 20
TOKEN = "0x" + "22" * 20
RECIPIENT = "0x" + "33" * 20
ORDER = Order("pay_" + "0" * 26, Asset.USDC, Decimal(1), RECIPIENT)
TX = "0x" + "ab" * 32
FINALITY_NUMBER = 10
ERROR = {"code": -32005, "message": "too many requests"}


class Node:
    """A node that answers what the test wrote into `answers`; a method that is not there hangs up."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        node = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                node.asked.append(call["method"])
                if call["method"] not in node.answers:
                    self.send_error(502)
                    return
                answer = node.answers[call["method"]]
                answer = answer(*call["params"]) if callable(answer) else answer
                member = "error" if isinstance(answer, dict) and "code" in answer else "result"
                body = json.dumps({"jsonrpc": "2.0", "id": call["id"], member: answer}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def has_block(self, number: int, block_hash: str = "0x" + "01" * 32) -> None:
        self.answers["eth_getBlockByNumber"] = {"number": hex(number), "hash": block_hash, "timestamp": "0x5"}

    def has_receipt(self, *, status: str = "0x1", block_hash: str = "0x" + "01" * 32) -> None:
        self.answers["eth_getTransactionReceipt"] = {
            "transactionHash": TX,
            "blockNumber": "0x5",
            "blockHash": block_hash,
            "status": status,
            "logs": [transfer()] if status == "0x1" else [],
        }


def transfer(**changes: Any) -> dict[str, Any]:
    log = {"address": TOKEN, "topics": [TRANSFER, topic(ESCROW), topic(RECIPIENT)], "data": f"0x{10**6:064x}"}
    return {**log, **changes}


def topic(address: str) -> str:
    return "0x" + address.removeprefix("0x").rjust(64, "0")


MakeNode = Callable[[], Node]


@pytest.fixture
def make_node() -> Iterator[MakeNode]:
    nodes: list[Node] = []

    def make() -> Node:
        nodes.append(Node())
        return nodes[-1]

    yield make
    for node in nodes:
        node.server.shutdown()
        node.server.server_close()


@pytest.fixture
def node(make_node: MakeNode) -> Node:
    return make_node()


def adapter(*nodes: Node) -> EvmChain:
    chain = find_chain(LOCALNET)
    assert chain
    return EvmChain(
        ServedChain(chain, tuple(node.url for node in nodes), ESCROW, {Asset.USDC: TOKEN}), settings.RELAYER_SEED
    )


def finality() -> Finality:
    return Finality(FINALITY_NUMBER, utc_now())


def look(node: Node) -> Any:
    return adapter(node).find_inclusions([(TX, ORDER)], finality()).get(TX)


# --- Finality ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("answer", [None, ERROR], ids=["null", "error"])
def test_a_node_without_a_final_block_is_a_chain_that_is_away(node, answer):
    node.answers["eth_getBlockByNumber"] = answer

    with pytest.raises(ChainUnavailable):
        adapter(node).find_finality()


def test_a_transaction_in_a_final_block_is_final(node):
    node.has_block(5)
    node.has_receipt()

    inclusion = look(node)

    assert (inclusion.block_number, inclusion.is_final, inclusion.failure) == (5, True, None)


def test_a_transaction_in_a_block_that_is_not_on_the_chain_is_not_final(node):
    node.has_block(5, "0x" + "02" * 32)
    node.has_receipt()

    assert not look(node).is_final


# --- Absence ----------------------------------------------------------------------------------------------------------
def test_a_missing_receipt_is_no_inclusion(node):
    node.answers["eth_getTransactionReceipt"] = None

    assert look(node) is None


def test_an_error_instead_of_a_receipt_is_a_chain_that_is_away(node):
    node.answers["eth_getTransactionReceipt"] = ERROR

    with pytest.raises(ChainUnavailable):
        look(node)


def test_the_escrows_word_in_the_final_block_proves_absence(node):
    node.answers["eth_call"] = lambda call, block: "0x" + "00" * 32 if (call["to"], block) == (ESCROW, "0xa") else None

    assert adapter(node).proves_absence(ORDER, finality())


@pytest.mark.parametrize(
    "answer",
    ["0x" + "00" * 31 + "01", {"code": -32000, "message": "header not found"}],
    ids=["it was paid", "the node is behind"],
)
def test_whatever_else_a_node_says_proves_nothing(node, answer):
    node.answers["eth_call"] = answer

    assert not adapter(node).proves_absence(ORDER, finality())


def test_no_node_proves_nothing(node):
    with pytest.raises(ChainUnavailable):
        adapter(node).proves_absence(ORDER, finality())


# --- Payment ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "logs",
    [
        [],
        [transfer(address=ESCROW)],
        [transfer(topics=[TRANSFER, topic(RECIPIENT), topic(RECIPIENT)])],
        [transfer(topics=[TRANSFER, topic(ESCROW), topic(TOKEN)])],
        [transfer(topics=[TRANSFER, topic(ESCROW)])],
        [transfer(data=f"0x{10**6 - 1:064x}")],
        [transfer(data="0x")],
    ],
    ids=["no log", "another token", "another payer", "another payee", "another event", "less", "no amount"],
)
def test_a_success_without_the_tokens_own_word_is_not_a_payment(node, logs):
    node.has_block(5)
    node.has_receipt()
    node.answers["eth_getTransactionReceipt"]["logs"] = logs

    assert look(node).failure.startswith("The transaction succeeded without paying")


def test_a_payment_is_found_among_other_logs(node):
    node.has_block(5)
    node.has_receipt()
    node.answers["eth_getTransactionReceipt"]["logs"] = [transfer(address=ESCROW), transfer(data="0x"), transfer()]

    assert look(node).failure is None


def test_a_revert_whose_reason_nobody_remembers_is_still_a_revert(node):
    node.has_block(5)
    node.has_receipt(status="0x0")
    node.answers["eth_getTransactionByHash"] = None

    assert look(node).failure == "Reverted."


# --- Several nodes ----------------------------------------------------------------------------------------------------
def test_the_next_node_is_asked_when_one_is_away(make_node):
    away, there = make_node(), make_node()
    there.has_block(10)

    assert adapter(away, there).find_finality().block_number == 10
    assert away.asked == ["eth_getBlockByNumber"]


def test_the_next_node_is_asked_when_one_answers_with_an_error(make_node):
    overloaded, there = make_node(), make_node()
    overloaded.answers["eth_getBlockByNumber"] = ERROR
    there.has_block(10)

    assert adapter(overloaded, there).find_finality().block_number == 10


@pytest.mark.parametrize(
    "message", ["already known", "nonce too low: next nonce 7, tx nonce 3", "Known transaction: ab"]
)
def test_a_node_that_has_a_transaction_already_has_taken_it(node, message):
    node.answers["eth_sendRawTransaction"] = {"code": -32000, "message": message}

    adapter(node).send(b"\x02")


def test_a_node_that_refuses_a_transaction_says_so(node):
    node.answers["eth_sendRawTransaction"] = {"code": -32000, "message": "insufficient funds for gas"}

    with pytest.raises(TransactionRefused, match="insufficient funds"):
        adapter(node).send(b"\x02")


@pytest.mark.parametrize("answer", [None, ERROR], ids=["null", "error"])
def test_a_node_that_knows_no_newest_block_is_a_chain_that_is_away(node, answer):
    node.answers.update(eth_maxPriorityFeePerGas="0x1", eth_getBlockByNumber=answer)

    with pytest.raises(ChainUnavailable):
        adapter(node).observe()
