"""Each process ends within its time when it is told to, and nothing that it has accepted is dropped or refused."""

import http.client
import json
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ledger.models import LogEntry
from tests.support.factories import make_agent, make_api_key, make_service, new_name
from tests.support.kills import children, wait_until
from tests.support.servers import Servers

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.long(20)]
_CLIENTS = 12


class Client:
    """An agent's program: it asks over one connection until that ends, each time with another key."""

    def __init__(self, url: str, agent: str, service: str, api_key: str) -> None:
        self._host = urlsplit(url).netloc
        body = {"agentId": agent, "service": service, "amount": "0.01", "asset": "USDC", "reason": "A test"}
        self._body = json.dumps(body)
        self._headers = {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"}
        self.answered: dict[str, int] = {}
        self.unanswered: list[str] = []
        self.paid = threading.Event()

    def work(self) -> None:
        connection = http.client.HTTPConnection(self._host, timeout=60)
        while True:
            try:
                connection.connect()
            except ConnectionError:  # nobody listens any more
                return
            self._use(connection)

    def _use(self, connection: http.client.HTTPConnection) -> None:
        """Ask until the connection ends; one that is closed while a request is on its way leaves that unanswered."""
        while connection.sock:
            key = new_name("key")
            try:
                connection.request(
                    "POST", "/v1/payments/request", self._body, {**self._headers, "Idempotency-Key": key}
                )
                answer = connection.getresponse()
                answer.read()
            except (ConnectionError, http.client.HTTPException):
                self.unanswered.append(key)
                connection.close()
                return
            self.answered[key] = answer.status
            self.paid.set()


def test_a_web_server_that_is_told_to_end_answers_what_it_has_accepted(tmp_path):
    agents = [make_agent(daily_limit="1000", weekly_limit="1000").id for _ in range(4)]
    service, api_key = make_service().id, make_api_key()
    with Servers(logs=tmp_path) as servers, ThreadPoolExecutor(_CLIENTS) as pool:
        clients = [Client(servers.urls[0], agents[index % 4], service, api_key) for index in range(_CLIENTS)]
        working = [pool.submit(client.work) for client in clients]
        for client in clients:
            assert client.paid.wait(60)
        status = servers.end("web-1")
        for one in working:
            one.result(timeout=60)

    answered = {key: status for client in clients for key, status in client.answered.items()}
    decided = {*LogEntry.objects.filter(agent__in=agents).values_list("idempotency_key", flat=True)}
    lost = decided - answered.keys()
    assert {*answered.values()} == {201}
    assert lost == set()
    assert status == 0
    assert servers.log_of("web-1").read_text() == ""  # nothing had to be killed


def test_a_web_server_that_is_told_to_end_while_it_loads_ends_at_once(tmp_path):
    servers = Servers(logs=tmp_path)
    servers.begin()
    try:
        loading = wait_until(partial(_loads, servers.pid("web-1")), "all its processes load")
    finally:
        status = servers.end("web-1")

    assert loading
    assert status == 0
    assert servers.log_of("web-1").read_text() == ""


def _loads(pid: int) -> bool:
    found = children(pid)
    return len(found) == Servers.PROCESSES_EACH and not any(_catches(one, signal.SIGTERM) for one in found)


def _catches(pid: int, number: int) -> bool:
    """Tell whether a process has a handler of its own for a signal. Source: proc(5), SigCgt."""
    with suppress(FileNotFoundError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        mask = next(line.split()[1] for line in lines if line.startswith("SigCgt"))
        return bool(int(mask, 16) >> (number - 1) & 1)
    return True
