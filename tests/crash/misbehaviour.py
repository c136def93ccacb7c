"""What nodes do to those who ask them: lose, delay and repeat messages, refuse, and say what is not so."""

import copy
import os
import random
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from eth_utils.crypto import keccak

from tests.crash.rules import Behaviour, Dropped, Forward, Refused, Request, Rule

SEND, RECEIPT, LOGS = "eth_sendRawTransaction", "eth_getTransactionReceipt", "eth_getLogs"
COUNT, BLOCK, CALL = "eth_getTransactionCount", "eth_getBlockByNumber", "eth_call"
SETTLED = "0x" + keccak(text="settled(bytes32)")[:4].hex()
_LONGEST_DELAY_S = 2.0
_LIMIT_EXCEEDED = -32005

Answers = list[dict[str, Any]]
# Takes a call and the node's result; returns what is said instead.
Lie = Callable[[dict[str, Any], Any], Any]


# --- Messages ---------------------------------------------------------------------------------------------------------
def lose_request(request: Request, forward: Forward, chance: random.Random) -> Answers:
    raise Dropped


def lose_answer(request: Request, forward: Forward, chance: random.Random) -> Answers:
    forward(request)
    raise Dropped


def delay(request: Request, forward: Forward, chance: random.Random) -> Answers:
    time.sleep(chance.uniform(0, _LONGEST_DELAY_S))
    return forward(request)


def ask_twice(request: Request, forward: Forward, chance: random.Random) -> Answers:
    forward(request)
    return forward(request)


def answer_twice(request: Request, forward: Forward, chance: random.Random) -> Answers:
    answers = forward(request)
    return [*answers, chance.choice(answers)] if request.is_batch else answers


def shuffle(request: Request, forward: Forward, chance: random.Random) -> Answers:
    answers = forward(request)
    chance.shuffle(answers)
    return answers


def be_busy(request: Request, forward: Forward, chance: random.Random) -> Answers:
    error = {"code": _LIMIT_EXCEEDED, "message": "limit exceeded"}
    return [{"jsonrpc": "2.0", "id": call["id"], "error": error} for call in request.calls]


def refuse(status: HTTPStatus) -> Behaviour:
    def behave(request: Request, forward: Forward, chance: random.Random) -> Answers:
        raise Refused(status, status.phrase.encode())

    return behave


def talk_garbage(request: Request, forward: Forward, chance: random.Random) -> Answers:
    raise Refused(HTTPStatus.OK, chance.choice([b"<html>", b"", b'{"jsonrpc":', b"[]", b"null", b"7"]))


def noise(chance: float) -> list[Rule]:
    """List every way in which messages suffer; each shows with this chance per request."""
    behaviours: list[tuple[str, Behaviour]] = [
        ("a request is lost", lose_request),
        ("an answer is lost", lose_answer),
        ("an answer comes late", delay),
        ("a request arrives twice", ask_twice),
        ("one answer of a batch comes twice", answer_twice),
        ("the answers of a batch come in another order", shuffle),
        ("a node is busy (-32005)", be_busy),
        ("HTTP 429", refuse(HTTPStatus.TOO_MANY_REQUESTS)),
        ("HTTP 500", refuse(HTTPStatus.INTERNAL_SERVER_ERROR)),
        ("an answer is garbage", talk_garbage),
    ]
    return [Rule(name, behaviour, chance=chance) for name, behaviour in behaviours]


# --- Lies -------------------------------------------------------------------------------------------------------------
def lying(lies: Mapping[str, Lie]) -> Behaviour:
    """Say something else about some methods, and the truth about all others."""

    def behave(request: Request, forward: Forward, chance: random.Random) -> Answers:
        answers = copy.deepcopy(forward(request))
        for call, answer in zip(request.calls, answers, strict=True):
            lie = lies.get(call["method"])
            if lie is not None and "result" in answer:
                answer["result"] = lie(call, answer["result"])
        return answers

    return behave


def forget(needle: str = "") -> Behaviour:
    """Take transactions (those whose bytes contain `needle`, as hex) and do nothing with them."""

    def behave(request: Request, forward: Forward, chance: random.Random) -> Answers:
        forgotten = {
            call["id"]: call["params"][0]
            for call in request.calls
            if call["method"] == SEND and needle in call["params"][0]
        }
        kept = [call for call in request.calls if call["id"] not in forgotten]
        answers = forward(Request(request.client, kept, request.is_batch))
        for number, raw in forgotten.items():
            tx = "0x" + keccak(hexstr=raw).hex()
            answers.append({"jsonrpc": "2.0", "id": number, "result": tx})
        return sorted(answers, key=lambda answer: int(answer["id"]))

    return behave


def no_receipt(call: dict[str, Any], receipt: Any) -> Any:
    return None


def receipt_of_no_block(call: dict[str, Any], receipt: Any) -> Any:
    return receipt and {**receipt, "blockHash": "0x" + os.urandom(32).hex()}


def flipped_status(call: dict[str, Any], receipt: Any) -> Any:
    return receipt and {**receipt, "status": "0x0" if receipt["status"] == "0x1" else "0x1"}


def early_failure(final_block: Callable[[], dict[str, Any]]) -> Lie:
    """Say of each transaction, in whatever block it is or in none, that it failed in the newest final block."""

    def lie(call: dict[str, Any], receipt: Any) -> Any:
        block = final_block()
        place = {"blockNumber": block["number"], "blockHash": block["hash"], "status": "0x0", "logs": []}
        return {**(receipt or {"transactionHash": call["params"][0]}), **place}

    return lie


def moved_count(by: int) -> Lie:
    def lie(call: dict[str, Any], count: Any) -> Any:
        return hex(max(0, int(count, 16) + by))

    return lie


def other_block(tag: str, ask: Callable[[str], Any]) -> Lie:
    """Say of a tag (`latest`, `finalized`) what `ask` makes of it."""

    def lie(call: dict[str, Any], block: Any) -> Any:
        return ask(tag) if call["params"][0] == tag else block

    return lie


def flipped_settled(call: dict[str, Any], word: Any) -> Any:
    is_asked = call["params"][0].get("data", "").startswith(SETTLED)
    return f"0x{1 - int(word, 16):064x}" if is_asked else word


def no_logs(call: dict[str, Any], logs: Any) -> Any:
    return []


def doubled_logs(call: dict[str, Any], logs: Any) -> Any:
    """Say that everything happened once more, in another transaction."""
    return [*logs, *({**log, "transactionHash": "0x" + os.urandom(32).hex()} for log in logs)]
