"""A node's address as the product sees it: JSON-RPC over HTTP, passed on to the node, unless it misbehaves.

The path of the URL names who asks, so that whoever waits for an answer can be killed while it waits.
"""

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import requests

from tests.crash.rules import Dropped, Hold, Refused, Request, Rule

_UPSTREAM_S = 20


class Proxy:
    """One address in front of the node. `applied` counts how often each rule showed."""

    def __init__(self, node_url: str, seed: int) -> None:
        self.applied: Counter[str] = Counter()
        self._node_url = node_url
        self._rules: tuple[Rule, ...] = ()
        self._holds: tuple[Hold, ...] = ()
        self._watcher: Callable[[Request], None] = lambda _: None
        self._random = random.Random(seed)
        self._changing = threading.Lock()
        self._server = _Server(self)
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def url(self, client: str) -> str:
        """Return the URL that one client process is given."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/{client}"

    def show(self, watcher: Callable[[Request], None]) -> None:
        """Show somebody every request from now on, before anything becomes of it."""
        self._watcher = watcher

    @contextmanager
    def rules(self, *rules: Rule) -> Iterator[None]:
        """Misbehave like this while the block runs; of several that would show, the first does."""
        with self._changing:
            self._rules = (*rules, *self._rules)
        try:
            yield
        finally:
            with self._changing:
                self._rules = tuple(rule for rule in self._rules if rule not in rules)

    @contextmanager
    def holding(self, hold: Hold) -> Iterator[None]:
        """Hold an answer while the block runs. One hold may stand at several proxies: it holds one answer in all."""
        with self._changing:
            self._holds = (*self._holds, hold)
        try:
            yield
        finally:
            hold.released.set()
            with self._changing:
                self._holds = tuple(one for one in self._holds if one is not hold)

    def answer(self, request: Request, session: requests.Session) -> bytes:
        """Answer as the rules want it. Raises `Dropped`, `Refused`."""
        self._watcher(request)
        for hold in self._holds:
            hold.meet(request, is_before=True)

        def forward(passed_on: Request) -> list[dict[str, Any]]:
            return self._ask_node(passed_on, session)

        rule = self._choose(request)
        answers = forward(request) if rule is None else rule.behaviour(request, forward, self._random)
        for hold in self._holds:
            hold.meet(request, is_before=False)
        return json.dumps(answers if request.is_batch else answers[0]).encode()

    def _choose(self, request: Request) -> Rule | None:
        with self._changing:
            for rule in self._rules:
                if rule.shows_in(request) and self._random.random() < rule.chance:
                    self.applied[rule.name] += bool(rule.name)
                    return rule
        return None

    def _ask_node(self, request: Request, session: requests.Session) -> list[dict[str, Any]]:
        if not request.calls:
            return []
        try:
            answers: Any = session.post(self._node_url, json=list(request.calls), timeout=_UPSTREAM_S).json()
        except requests.RequestException:
            raise Dropped from None
        by_id = {answer["id"]: answer for answer in answers}
        return [by_id[call["id"]] for call in request.calls]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients are killed while they wait, which is what this is for."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server

    def setup(self) -> None:
        super().setup()
        self._session = requests.Session()
        self._session.trust_env = False

    def finish(self) -> None:
        self._session.close()
        with suppress(OSError):
            super().finish()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        calls = body if isinstance(body, list) else [body]
        # Ids of our own: a client may use one twice.
        numbered = [{**call, "id": number} for number, call in enumerate(calls)]
        request = Request(self.path.strip("/"), numbered, isinstance(body, list))
        try:
            self._send(HTTPStatus.OK, self._with_ids(self.server.proxy.answer(request, self._session), calls))
        except Refused as refusal:
            self._send(refusal.status, refusal.body)
        except (Dropped, HTTPException):
            self.close_connection = True

    def _with_ids(self, body: bytes, calls: Sequence[dict[str, Any]]) -> bytes:
        answers = json.loads(body)
        for answer in answers if isinstance(answers, list) else [answers]:
            answer["id"] = calls[answer["id"]].get("id")
        return json.dumps(answers).encode()

    def _send(self, status: int, body: bytes) -> None:
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing; the table at the end does."""
