"""Hole 3: who sends or reads slowly, and who asks for much at once, costs the others nothing. Against real servers."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
import requests
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from allowance.front.admission import MAX_UNSENT_BYTES_OF_ALL
from allowance.front.incoming import BODY_DEADLINE_S
from allowance.front.sockets import UNREAD_DEADLINE_S, raise_file_limit
from payments.models import Payment
from tests.support.factories import make_agent, make_api_key, new_name
from tests.support.localnets import EVM
from tests.support.servers import Servers
from tests.support.wire import PATIENCE_S, Siege, ask, count_connections

PATH = "/v1/payments/request"
LARGE = "/static/drf_spectacular_sidecar/swagger-ui-dist/swagger-ui-bundle.js"
# Whoever waits behind a slow client waits for its deadline.
SERVED_WITHIN_S = BODY_DEADLINE_S / 2
pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.long(95)]


class Customer:
    """Somebody with an agent and a key of their own, who pays meanwhile."""

    def __init__(self, url: str) -> None:
        self.url, self.key, self.agent = url, make_api_key(), make_agent()
        self._service = EVM.make_service()

    def pay(self) -> int:
        body = {"agentId": self.agent.id, "service": self._service.id, "amount": "0.01", "asset": "USDC", "reason": "x"}
        headers = {"Authorization": f"Bearer {self.key}", "Idempotency-Key": new_name("key")}
        return requests.post(self.url + PATH, json=body, headers=headers, timeout=PATIENCE_S).status_code

    def look(self) -> int:
        return requests.get(f"{self.url}/healthz", timeout=PATIENCE_S).status_code


def post(path: str, *headers: str) -> bytes:
    """The beginning of a POST up to the first byte of its body."""
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


@pytest.fixture(scope="module")
def url(django_db_setup: None, django_db_blocker: Any) -> Iterator[str]:
    raise_file_limit()  # for the clients, which are all in this process
    with django_db_blocker.unblock(), Servers() as servers:
        yield servers.urls[0]


@contextmanager
def besieged(*sieges: Siege) -> Iterator[None]:
    with ExitStack() as all_of_them:
        for siege in sieges:
            all_of_them.enter_context(siege.laid())
        yield


def assert_served(url: str) -> None:
    """Look and pay twenty times: all but two are answered long before a slow client would be hung up on."""
    customer = Customer(url)
    for call in (customer.look, customer.pay):
        took_s = [_timed(call) for _ in range(20)]
        assert sorted(took_s)[-3] < SERVED_WITHIN_S, took_s
    assert Payment.objects.filter(agent=customer.agent).count() == 20


def _timed(call: Any) -> float:
    began = time.monotonic()
    assert call() in (200, 201)
    return time.monotonic() - began


def resident_bytes(url: str) -> int:
    """Add up what the processes behind an address hold in memory."""
    port = url.rpartition(":")[2]
    found = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"--port\0{port}\0".encode() in (folder / "cmdline").read_bytes():
                found += int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert found
    return found


def assert_sent_away(siege: Siege, deadline_s: float) -> None:
    end = time.monotonic() + deadline_s + PATIENCE_S
    while len(siege.lasted_s) < siege.count:
        assert time.monotonic() < end, f"{len(siege.lasted_s)} of {siege.count} were sent away."
        time.sleep(0.1)


def test_slow_bodies_at_the_console_keep_nobody_waiting_and_do_not_stay(url):
    page = Siege(url, post("/console/", "Content-Length: 60000"), b"x")
    login = Siege(url, post("/console/login/", "Content-Length: 4000"), b"x")

    with besieged(page, login):
        assert_served(url)
        assert_sent_away(page, BODY_DEADLINE_S)
        assert_sent_away(login, BODY_DEADLINE_S)


def test_slow_bodies_at_payments_keep_nobody_waiting_and_do_not_stay(url):
    key = f"Authorization: Bearer {make_api_key()}"
    known = Siege(url, post(PATH, key, "Content-Length: 60000"), b"x")
    unknown = Siege(url, post(PATH, "Content-Length: 60000"), b"x")
    chunks = Siege(url, post(PATH, key, "Transfer-Encoding: chunked"), b"1\r\nx\r\n")

    with besieged(known, unknown, chunks):
        assert_served(url)
        for siege in (known, unknown, chunks):
            assert_sent_away(siege, BODY_DEADLINE_S)
    assert {answer.split()[1] for answer in known.answered + chunks.answered} == {b"400"}
    assert {answer.split()[1] for answer in unknown.answered} == {b"401"}


def test_slow_headers_and_silence_keep_nobody_waiting_and_do_not_stay(url):
    headers = Siege(url, f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nX: ".encode(), b"x")
    silence = Siege(url, b"", b"")

    with besieged(headers, silence):
        assert_served(url)
        assert_sent_away(headers, BODY_DEADLINE_S)
        assert_sent_away(silence, BODY_DEADLINE_S)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone closes the connections of those who read nothing.")
def test_slow_readers_keep_nobody_waiting_and_do_not_stay(url):
    # Ten times what the kernel keeps for a client.
    readers = Siege(url, f"GET {LARGE} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(), b"", reads=True)

    with besieged(readers):
        assert_served(url)
        assert count_connections(url) >= readers.count
        end = time.monotonic() + UNREAD_DEADLINE_S + PATIENCE_S
        while (left := count_connections(url)) > 0:
            assert time.monotonic() < end, f"{left} are still connected."
            time.sleep(0.5)


@pytest.mark.skipif(sys.platform != "linux", reason="As above.")
@pytest.mark.parametrize(
    "request_of",
    [f"GET {LARGE} HTTP/1.1\r\nRange: bytes=0-1300000", "GET /v1/openapi.json HTTP/1.1"],
    ids=["a part of a file", "a large answer"],
)
def test_slow_readers_of_what_stays_in_memory_take_no_key_and_no_memory(url, request_of):
    readers = Siege(url, f"{request_of}\r\nHost: localhost\r\n\r\n".encode(), b"", reads=True)
    before = resident_bytes(url)

    with besieged(readers):
        assert_served(url)  # by a key that is new to the server
        assert resident_bytes(url) - before < 2 * MAX_UNSENT_BYTES_OF_ALL


def test_a_crowd_at_the_login_form_does_not_keep_staff_from_their_pages(url):
    user = User.objects.create(username=new_name("clerk"), is_staff=True, is_superuser=True)
    client = Client(SERVER_NAME="localhost")
    client.force_login(user)
    cookies = {"sessionid": client.cookies["sessionid"].value}
    try:
        assert requests.get(f"{url}/console/", cookies=cookies, timeout=PATIENCE_S).status_code == 200
        form = b"username=x&password=y"
        crowd = Siege(url, post("/console/login/", f"Content-Length: {len(form)}") + form, b"")
        with besieged(crowd):
            for page in ("/console/", "/static/admin/css/base.css", "/console/", "/console/login/"):
                answer = requests.get(url + page, cookies=cookies, timeout=PATIENCE_S)
                assert answer.status_code == 200, page
    finally:
        user.delete()


def test_paths_that_are_long_to_read_do_not_stop_the_loop(url):
    odd = f"GET /v1/{'%ff' * 10_000} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    with ThreadPoolExecutor(20) as clients:
        asked = [clients.submit(ask, url, odd) for _ in range(200)]
        assert_served(url)
        assert {one.result(PATIENCE_S).status for one in asked} == {404}


@contextmanager
def locked(agent: Any) -> Iterator[None]:
    """Hold an agent's row, so that whoever decides its payments waits."""
    with psycopg.connect(**connection.get_connection_params()) as other:
        other.execute("SELECT FROM policy_agent WHERE id = %s FOR UPDATE", [agent.id])
        yield


def _wait_for_waiting(count: int) -> None:
    """Wait until so many database sessions wait for a lock."""
    deadline = time.monotonic() + PATIENCE_S
    with connection.cursor() as cursor:
        while True:
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
            if cursor.fetchone()[0] >= count:
                return
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_a_key_that_has_all_the_threads_it_may_have_leaves_some_to_others(url):
    greedy, modest = Customer(url), Customer(url)
    modest.pay()
    with ThreadPoolExecutor(40) as clients:
        with locked(greedy.agent):
            waiting = [clients.submit(greedy.pay) for _ in range(40)]
            _wait_for_waiting(2)  # one thread of each process waits for the agent, the others for that thread
            time.sleep(0.5)
            answers = [modest.pay() for _ in range(4)]
            assert not any(one.done() for one in waiting)
        assert answers == [201] * 4
        # Those who had to wait are not refused: 201, or 503 where the lock was waited for in vain.
        assert {one.result(2 * PATIENCE_S) for one in waiting} <= {201, 503}


def test_what_is_being_decided_when_a_server_is_asked_to_stop_is_answered():
    with Servers() as servers, ThreadPoolExecutor(8) as clients:
        customer = Customer(servers.urls[0])
        customer.pay()
        with locked(customer.agent):
            waiting = [clients.submit(customer.pay) for _ in range(8)]
            _wait_for_waiting(1)
            time.sleep(0.5)
            os.kill(servers.pid("web-1"), signal.SIGTERM)
            time.sleep(0.5)
        assert [one.result(PATIENCE_S) for one in waiting] == [201] * 8
