"""Nodes for tests: HTTP servers that answer JSON-RPC as they are told, and in ways in which none should."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from eth_abi.abi import decode, encode
from eth_utils.crypto import keccak

from chains.catalogue import ServedChain, find_chain
from chains.evm.adapter import EvmChain
from chains.evm.answers import PAID
from chains.evm.events import DEPOSITED
from chains.port import Order
from foundation.environment.keys import held_key
from foundation.kernel.assets import Asset
from tests.support.evm_escrow import TRANSFER
from tests.support.local_ids import LOCALNET

ESCROW = "0x" + "11" * 20
TOKEN = "0x" + "22" * 20
NOT_THERE = {"code": -32000, "message": "header not found"}
BASE_FEE_WEI, TIP_WEI = 10 * 10**9, 10**9
_STATUSES = keccak(text="statuses(bytes32[])")[:4]
Answer = tuple[int, bytes]


class Node:
    """A node that answers what the test wrote into `answers`: a value, an error (a dict with `code`), a function of
    the parameters. `respond` makes of a request's body an answer over HTTP: (status, body).
    """

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        self.requests: list[Any] = []
        self.respond: Callable[[Any], Answer] = self.tell
        self.is_dripping = False
        self.closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def tell(self, body: Any) -> Answer:
        """Answer as a node should."""
        answered = [self.answer(one) for one in body] if isinstance(body, list) else self.answer(body)
        return 200, json.dumps(answered).encode()

    def answer(self, call: Any) -> dict[str, Any]:
        self.asked.append(call["method"])
        missing = {"code": -32601, "message": "method not found"}
        answer = self.answers.get(call["method"], missing)
        answer = answer(*call["params"]) if callable(answer) else answer
        member = "error" if isinstance(answer, dict) and "code" in answer else "result"
        return {"jsonrpc": "2.0", "id": call["id"], member: answer}

    def hang(self, body: Any) -> Answer:
        """Answer only when the test is over."""
        self.closing.wait()
        return 200, b""


@contextmanager
def open_nodes(count: int) -> Iterator[list[Node]]:
    """Run nodes until the block ends."""
    nodes = [Node() for _ in range(count)]
    try:
        yield nodes
    finally:
        for node in nodes:
            node.close()


def _handler(node: Node) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            node.requests.append(body)
            status, answer = node.respond(body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            for piece in (answer[index : index + 1] for index in range(len(answer))) if node.is_dripping else (answer,):
                if node.is_dripping and node.closing.wait(0.01):
                    return
                self.wfile.write(piece)

        def log_message(self, *_: Any) -> None:
            pass

        def handle(self) -> None:
            # Nobody waits for a node that is too slow.
            try:
                super().handle()
            except ConnectionError:
                self.close_connection = True

    return Handler


# --- What nodes say ---------------------------------------------------------------------------------------------------
def block(number: int, time: float, block_hash: str | None = None) -> dict[str, Any]:
    header = {"number": hex(number), "hash": block_hash or hash_of(number), "timestamp": hex(int(time))}
    return header | {"baseFeePerGas": hex(BASE_FEE_WEI)}


def fee_history(count: str, number: str, tip_wei: int = TIP_WEI) -> dict[str, Any]:
    """Say that in every block half of the gas tipped so much."""
    oldest = max(0, int(number, 16) - int(count, 16) + 1)
    blocks = int(number, 16) - oldest + 1
    rewards = {"gasUsedRatio": [0.5] * blocks, "reward": [[hex(tip_wei)]] * blocks}
    return rewards | {"oldestBlock": hex(oldest), "baseFeePerGas": [hex(BASE_FEE_WEI)] * (blocks + 1)}


def hash_of(number: int) -> str:
    return f"0x{number:064x}"


def receipt(tx: str, logs: Sequence[Any], *, number: int = 5, is_success: bool = True) -> dict[str, Any]:
    return {
        "transactionHash": tx,
        "blockNumber": hex(number),
        "blockHash": hash_of(number),
        "status": hex(is_success),
        "logs": list(logs),
    }


def transfer(order: Order, **changes: Any) -> dict[str, Any]:
    units = int(order.amount * 10**6)
    log = {"address": TOKEN, "topics": [TRANSFER, word(ESCROW), word(order.recipient)], "data": word(units)}
    return {**log, **changes}


def paid(order: Order, **changes: Any) -> dict[str, Any]:
    """Say as the escrow that it has paid an order."""
    return {
        **transfer(order),
        "address": ESCROW,
        "topics": [PAID, order.escrow_id, word(TOKEN), word(order.recipient)],
    } | changes


def made(order: Order) -> list[dict[str, Any]]:
    """Say what the escrow and the token say of an order that is paid."""
    return [paid(order), transfer(order)]


def of_ids(find_status: Callable[[str], int]) -> Callable[[dict[str, str], str], str]:
    """Answer `eth_call` as an escrow of which `find_status` says what became of each id, whatever else it is asked."""

    def answer(wanted: dict[str, str], _block: str) -> str:
        data = bytes.fromhex(wanted["data"].removeprefix("0x"))
        if not asks_for_list(wanted):
            return word(find_status("0x" + data[4:36].hex()))
        (ids,) = decode(["bytes32[]"], data[4:])
        return "0x" + encode(["uint256[]"], [[find_status("0x" + one.hex()) for one in ids]]).hex()

    return answer


def of_each(status: int) -> Callable[[dict[str, str], str], str]:
    """Answer `eth_call` as an escrow that says the same of each id."""
    return of_ids(lambda _: status)


def asks_for_list(wanted: dict[str, str]) -> bool:
    """Tell whether a call asks an escrow for the statuses of a list of ids, which one of an earlier release refuses."""
    return wanted["data"].startswith("0x" + _STATUSES.hex())


def deposit(number: int, index: int = 0, agent: str = "agent", **changes: Any) -> dict[str, Any]:
    text = agent.encode().ljust(32, b"\0").hex()
    log = {
        "address": ESCROW,
        "topics": [DEPOSITED, word("0x" + "44" * 20), word(TOKEN)],
        "data": word(64) + word(10**6)[2:] + word(len(agent))[2:] + text,
        "transactionHash": hash_of(1000 + number),
        "logIndex": hex(index),
        "blockNumber": hex(number),
    }
    return {**log, **changes}


def logs_of(*logs: dict[str, Any]) -> Callable[[dict[str, Any]], list[dict[str, Any]]]:
    """Answer `eth_getLogs` with those of these logs that are asked for, as a node does."""

    def find(wanted: dict[str, Any]) -> list[dict[str, Any]]:
        addresses = [one.lower() for one in wanted["address"]]
        return [one for one in logs if one["address"].lower() in addresses and _has_topics(one, wanted["topics"])]

    return find


def _has_topics(log: dict[str, Any], wanted: Sequence[Sequence[str] | None]) -> bool:
    return all(accepted is None or topic in accepted for topic, accepted in zip(log["topics"], wanted, strict=False))


def word(value: int | str) -> str:
    return "0x" + (f"{value:x}" if isinstance(value, int) else value.removeprefix("0x")).rjust(64, "0")


class Truth:
    """What an honest node says of a chain of twelve blocks and of one payment. `time` is the newest block's."""

    def __init__(self, tx: str, order: Order, time: float) -> None:
        self.tx, self.order, self.time = tx, order, time
        self.is_paid = False
        self.head = 12

    def answers(self, **lies: Any) -> dict[str, Any]:
        """Say all that a node is asked for, but for some lies: by method."""
        return {
            "eth_chainId": hex(31337),
            "eth_blockNumber": hex(self.head),
            "eth_getBlockByNumber": self.block,
            "eth_getTransactionReceipt": lambda tx: receipt(tx, made(self.order)) if self.is_paid else None,
            "eth_getTransactionCount": lambda *_: hex(self.is_paid),
            "eth_call": of_each(int(self.is_paid)),
            "eth_getTransactionByHash": None,
            "eth_feeHistory": lambda count, number, _: fee_history(count, number),
        } | lies

    def block(self, number: str, *_: Any) -> Any:
        wanted = self.head if number == "latest" else int(number, 16)
        return block(wanted, self.time - (self.head - wanted)) if wanted <= self.head else None


def order_of(escrow_id: str = "0x" + "0" * 64, amount: str = "1") -> Order:
    return Order(escrow_id, Asset.USDC, Decimal(amount), "0x" + "33" * 20)


# --- Who asks them ----------------------------------------------------------------------------------------------------
def adapter(*nodes: Node, max_tip_gwei: Decimal | None = None, finality_depth: int | None = 2) -> EvmChain:
    chain = find_chain(LOCALNET)
    assert chain
    for node in nodes:
        node.answers.setdefault("eth_chainId", hex(chain.chain_id))
    urls = tuple(node.url for node in nodes)
    bounds: dict[str, Any] = {"finality_depth": finality_depth, "max_tip_gwei": max_tip_gwei}
    served = ServedChain(chain, urls, ESCROW, {Asset.USDC: TOKEN}, **bounds)
    return EvmChain.of(served, held_key("RELAYER_SEED"))


def tell(nodes: list[Node], truth: Truth, liar: int, **lies: Any) -> EvmChain:
    """Let one node lie and the other be honest."""
    for index, node in enumerate(nodes):
        node.answers = truth.answers(**(lies if index == liar else {}))
    return adapter(*nodes)
