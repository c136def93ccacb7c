"""Agents that pay and read while one release takes the place of another: what they asked, and what they were told."""

import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import requests

from tests.runbooks.patience import PATIENCE_S, wait_for
from tests.runbooks.releases import OVER_TLS
from tests.support.factories import new_name

_TIMEOUT_S = 30
# Between two payments of an agent.
_PAUSE_S = 1.5
_READS = ("/v1/payments/{payment}", "/v1/agents/{agent}/budget", "/v1/logs?agentId={agent}")
UNITS_OF_A_PAYMENT = 10_000
_FIRST_SERVER_ERROR = 500


@dataclass(slots=True)
class Request:
    """One payment that somebody wants, under one key, and every answer to it: status and body; 0: no answer."""

    agent: str
    key: str
    answers: list[tuple[int, bytes]] = field(default_factory=list)

    @property
    def payment(self) -> str:
        """Name the payment that the last answer told of."""
        return str(json.loads(self.answers[-1][1])["id"])

    @property
    def final(self) -> tuple[int, bytes]:
        return self.answers[-1]


@dataclass(slots=True)
class Clients:
    """Agents, one thread each. `url` is where the load balancer sends them at the moment."""

    url: str
    api_key: str
    service: str
    agents: Sequence[str]
    asked: list[Request] = field(default_factory=list)
    reads: Counter[int] = field(default_factory=Counter)
    failures: list[BaseException] = field(default_factory=list)
    _leave: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Let all of them pay while the block runs; then each has the answer to its last request."""
        self._leave.clear()
        threads = [threading.Thread(target=self._work, args=(agent,)) for agent in self.agents]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._leave.set()
            for thread in threads:
                thread.join()

    def wait_for_answers(self, count: int) -> None:
        """Wait until each agent has so many more answers."""
        wanted = Counter(one.agent for one in self.asked)
        wait_for(lambda: self.failures or self._have_answers(wanted, count), f"{count} more answers")

    def get(self, path: str) -> requests.Response:
        return requests.get(f"{self.url}{path}", headers=self._headers(), timeout=_TIMEOUT_S)

    def pay(self, agent: str) -> Request:
        """Pay once; returns when there is an answer that another attempt would not change."""
        request = self.ask(agent)
        self.insist(request)
        return request

    def ask(self, agent: str) -> Request:
        """Ask once, whatever the answer."""
        request = Request(agent, new_name("runbook"))
        self.asked.append(request)
        self.ask_again(request)
        return request

    def insist(self, request: Request) -> None:
        """Ask until there is an answer that another attempt would not change. Raises TimeoutError."""
        deadline = time.monotonic() + PATIENCE_S
        while not 0 < request.final[0] < _FIRST_SERVER_ERROR:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{request.key} still gets {request.final}")
            time.sleep(_PAUSE_S)
            self.ask_again(request)

    def ask_again(self, request: Request) -> int:
        """Send a request; returns the status, 0 if there is no answer."""
        body = {"agentId": request.agent, "service": self.service, "amount": "0.01", "asset": "USDC", "reason": "Load"}
        headers = {**self._headers(), "Idempotency-Key": request.key}
        try:
            url = f"{self.url}/v1/payments/request"
            answer = requests.post(url, json=body, headers=headers, timeout=_TIMEOUT_S)
            request.answers.append((answer.status_code, answer.content))
        except requests.RequestException as error:
            request.answers.append((0, repr(error).encode()))
        return request.final[0]

    def register(self, service: str, recipient: str) -> int:
        """Register a payee; returns the status."""
        body = {"id": service, "name": service, "recipient": recipient, "asset": "USDC"}
        return requests.post(
            f"{self.url}/v1/services", json=body, headers=self._headers(), timeout=_TIMEOUT_S
        ).status_code

    def troubles(self) -> list[str]:
        """List the answers that were not what was asked for, whether or not a retry mended them."""
        return [
            f"{one.key}: {status} {body[:200]!r}" for one in self.asked for status, body in one.answers if status != 201
        ]

    def _have_answers(self, before: Counter[str], count: int) -> bool:
        now = Counter(one.agent for one in self.asked if one.answers)
        return all(now[agent] >= before[agent] + count for agent in self.agents)

    def _work(self, agent: str) -> None:
        reads = itertools.cycle(_READS)
        try:
            while not self._leave.is_set():
                request = self.pay(agent)
                # The same request once more, as after a lost answer; it may meet the other release.
                self.ask_again(request)
                self.insist(request)
                self.reads[self.get(next(reads).format(agent=agent, payment=request.payment)).status_code] += 1
                self._leave.wait(_PAUSE_S)
        except BaseException as error:
            self.failures.append(error)
            raise

    def _headers(self) -> dict[str, str]:
        return {**OVER_TLS, "Authorization": f"Bearer {self.api_key}"}
