"""Agents' programs: they pay all the while, and ask again under the same idempotency key until they have an answer."""

import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import requests

from foundation.kernel.assets import Asset
from tests.crash.installation import PATIENCE_S, wait_until

APPROVED = 201
_FIRST_SERVER_ERROR = 500
_UNAVAILABLE = 503
_TIMEOUT_S = 30
_PAUSE_S = 0.2
# Together the agents ask for about ten payments per second.
_LONGEST_REST_S = 1.6


@dataclass(slots=True)
class Request:
    """One payment as an agent wants it, and what it was told: (status, body); status 0: the connection broke."""

    agent: str
    key: str
    body: dict[str, Any]
    answers: list[tuple[int, bytes]] = field(default_factory=list)

    @property
    def is_answered(self) -> bool:
        return bool(self.answers) and 0 < self.answers[-1][0] < _FIRST_SERVER_ERROR

    @property
    def approval(self) -> bytes | None:
        """The answer that said that it is approved, if one did."""
        return next((body for status, body in self.answers if status == APPROVED), None)

    @property
    def payment_id(self) -> str:
        return str(json.loads(self.approval or b"{}")["id"])


@dataclass(frozen=True, slots=True)
class Agent:
    """Whose money it is, in what sizes (hundredths of the asset) it pays and whom."""

    id: str
    asset: Asset
    amounts: tuple[int, int]
    services: Sequence[str]


class Clients:
    """Agents' programs, each a thread; they use all web servers in turn."""

    def __init__(self, agents: Sequence[Agent], urls: Sequence[str], api_key: str, seed: int) -> None:
        self.requests: list[Request] = []
        self._urls = urls
        self._headers = {"Authorization": f"Bearer {api_key}"}
        self._stopping = threading.Event()
        self._is_given_up = threading.Event()
        # Each holds its own while it pays.
        self._turns = [threading.Lock() for _ in agents]
        self._threads = [
            threading.Thread(target=self._run, args=(agent, random.Random(seed * 1000 + number), turn), name=agent.id)
            for number, (agent, turn) in enumerate(zip(agents, self._turns, strict=True))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let each have the answer that it waits for, and no new wishes."""
        self._stopping.set()
        wait_until(lambda: not any(thread.is_alive() for thread in self._threads), "the agents are answered")

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Let each have the answer that it waits for; they want nothing while the block runs."""
        with ExitStack() as stack:
            for turn in self._turns:
                stack.enter_context(turn)
            yield

    def abandon(self) -> None:
        """Leave at once, whatever is unanswered."""
        self._stopping.set()
        self._is_given_up.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def pay(self, agent: Agent, chance: random.Random, urls: Sequence[str] = ()) -> Request:
        """Pay once; returns when there is an answer. `urls`: ask these only."""
        request = Request(agent.id, f"{chance.getrandbits(64):016x}", _wish(agent, chance))
        self.requests.append(request)
        with requests.Session() as session:
            session.trust_env = False
            session.headers.update(self._headers)
            self._insist(request, session, chance, urls or self._urls)
        return request

    def ask(self, request: Request, url: str) -> requests.Response:
        """Ask for the same payment once more."""
        headers = {**self._headers, "Idempotency-Key": request.key}
        return requests.post(f"{url}/v1/payments/request", json=request.body, headers=headers, timeout=_TIMEOUT_S)

    def count_approved(self, agents: Sequence[Agent] = ()) -> int:
        """Count the approved requests of some agents; of all if none is named."""
        names = {agent.id for agent in agents}
        wanted = (one for one in list(self.requests) if not names or one.agent in names)
        return sum(one.approval is not None for one in wanted)

    def _run(self, agent: Agent, chance: random.Random, turn: threading.Lock) -> None:
        while not self._stopping.is_set():
            with turn:
                self.pay(agent, chance)
            self._stopping.wait(chance.uniform(0, _LONGEST_REST_S))

    def _insist(self, request: Request, session: requests.Session, chance: random.Random, urls: Sequence[str]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not request.is_answered and not self._is_given_up.is_set() and time.monotonic() < deadline:
            try:
                response = session.post(
                    f"{chance.choice(urls)}/v1/payments/request",
                    json=request.body,
                    headers={"Idempotency-Key": request.key},
                    timeout=_TIMEOUT_S,
                )
            except requests.RequestException as error:
                request.answers.append((0, type(error).__name__.encode()))
            else:
                request.answers.append((response.status_code, response.content))
            if not request.is_answered:
                self._is_given_up.wait(chance.uniform(0, _PAUSE_S))


def unexpected(found: Sequence[Request]) -> list[str]:
    """List the answers that no fault excuses: a server error other than "unavailable"."""
    return [
        f"{request.agent} {request.key}: {status} {body[:200]!r}"
        for request in found
        for status, body in request.answers
        if status >= _FIRST_SERVER_ERROR and status != _UNAVAILABLE
    ]


def _wish(agent: Agent, chance: random.Random) -> dict[str, Any]:
    cents = chance.randint(*agent.amounts)
    return {
        "agentId": agent.id,
        "service": chance.choice(agent.services),
        "amount": f"{cents // 100}.{cents % 100:02}",
        "asset": agent.asset,
        "reason": "crash test",
    }
