"""What nodes of any chain do to those who ask them: lose, delay and repeat messages, refuse, say what is not so."""

import copy
import random
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from tests.crash.localnets import Localnet
from tests.crash.rules import Behaviour, Dropped, Forward, Refused, Request, Rule

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


def forget(localnet: Localnet, needle: bytes = b"") -> Behaviour:
    """Take transactions (those whose bytes contain `needle`) and do nothing with them."""
    (send,) = localnet.asking.send

    def behave(request: Request, forward: Forward, chance: random.Random) -> Answers:
        offers = {call["id"]: localnet.read_offer(call) for call in request.calls if call["method"] == send}
        forgotten = {number: tx for number, (tx, raw) in offers.items() if needle in raw}
        kept = [call for call in request.calls if call["id"] not in forgotten]
        answers = forward(Request(request.client, kept, request.is_batch))
        answers += [{"jsonrpc": "2.0", "id": number, "result": tx} for number, tx in forgotten.items()]
        return sorted(answers, key=lambda answer: int(answer["id"]))

    return behave
