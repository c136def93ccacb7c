"""`Prefer: wait=N` on a payment request: a later answer, never another one."""

import http.client
import itertools
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import datetime
from typing import Any

import pytest
from django.db import connection

from foundation.kernel.times import utc_now
from payments.api.views import waiting_room
from payments.api.waiting import LONGEST_WAIT_S, MOST_WAITING, read_wait
from payments.lifecycle import SettlementState
from payments.models import Settlement
from payments.settling.state_changes import StateChange
from payments.settling.transitions import change_states, settle
from policy.operations import pause_agent
from tests.support.answers import error_of
from tests.support.factories import make_agent, make_api_key, new_name
from tests.support.fake_chain import PATIENCE_S
from tests.support.local_chain import Localnet
from tests.support.localnets import EVM, LOCALNETS
from tests.support.made_ends import fail_by
from tests.support.scenes import row_of
from tests.support.servers import Servers
from tests.support.waiting import full

PATH = "/v1/payments/request"


# --- The header
@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("wait=10", 10),
        ("wait=1", 1),
        ("wait=30", 30),
        ("wait=31", 30),
        ("wait=" + "9" * 5000, 30),
        ("wait=010", 10),
        ("Wait=10", 10),
        ("WAIT=10", 10),
        ('wait="10"', 10),
        (" wait = 10 ", 10),
        ("\twait\t=\t10", 10),
        ("wait=10; foo=bar", 10),
        ('wait=10;foo="a, wait=5"', 10),
        ("respond-async, wait=10", 10),
        ("respond-async,wait=10,return=minimal", 10),
        (",, wait=10", 10),
        ("return=representation; foo, wait=10", 10),
        ('foo="a, wait=5", wait=10', 10),
        ('foo="a\\", wait=5", wait=10', 10),
        ("foo; wait=5, wait=10", 10),
        ("a wait=5, wait=10", 10),
        ("wait=10, wait=20", 10),
        ("wait=20, WAIT=10", 20),
    ],
)
def test_a_wait_is_read_from_among_other_preferences(header, seconds):
    assert read_wait(header) == seconds


@pytest.mark.parametrize(
    "header",
    [
        "", ",", "wait", "wait=", 'wait=""', "wait=0", "wait=00", "wait=-1", "wait=+1", "wait=1.5", "wait=1s",
        "wait=0x10", "wait=\u0661", "wait=\u00b2", "wait=10 20", 'wait="10', 'wait=10"', 'wait="1"0', "wait:10",
        "waits=10", "await=10", "wait;=10", "wait=ten, wait=10", "wait=0, wait=10", "wait, wait=10", 'foo="wait=10"',
        'foo="a, wait=10', "respond-async", "=10", "wait=10=10",
    ],
)  # fmt: skip
def test_what_is_no_wait_is_ignored(header):
    assert read_wait(header) is None


# --- The answer
def pay(api: Any, body: dict[str, Any], prefer: str | None, key: str | None = None) -> Any:
    headers = {"idempotency_key": key or new_name("key")}
    return api.post(PATH, body, **headers, **({} if prefer is None else {"prefer": prefer}))


def assert_waited(again: Any, first: Any, applied: str) -> None:
    assert again["Preference-Applied"] == applied
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again["Location"] == first["Location"]


def include(row: Settlement) -> None:
    change_states([StateChange(row_of(row), SettlementState.INCLUDED, block_number=1, block_hash="0x01")])


def settle_it(row: Settlement) -> None:
    settle([StateChange(row_of(row), SettlementState.FINAL)])


def fail_it(row: Settlement) -> None:
    fail_by(StateChange(row_of(row), SettlementState.FAILED, "Reverted."))


def test_a_payment_that_no_block_takes_is_answered_after_the_time(api, payment):
    began = time.monotonic()

    answer = pay(api, payment, "wait=1")

    assert time.monotonic() - began >= 1
    assert answer.status_code == 201
    assert answer.json()["status"] == "approved"
    assert answer["Preference-Applied"] == "wait=1"
    assert "Idempotent-Replayed" not in answer


def test_a_replay_waits_as_well_and_is_the_same_answer(api, payment):
    key = new_name("key")
    first = pay(api, payment, None, key)
    began = time.monotonic()

    again = pay(api, payment, "wait=1", key)

    assert time.monotonic() - began >= 1
    assert "Preference-Applied" not in first
    assert again["Idempotent-Replayed"] == "true"
    assert_waited(again, first, "wait=1")


@pytest.mark.parametrize("happened", [include, settle_it, fail_it])
@pytest.mark.parametrize(
    ("prefer", "applied"), [("wait=30", "wait=30"), ("wait=31", "wait=30"), ("respond-async, wait=10", "wait=10")]
)
def test_a_payment_that_is_in_a_block_or_over_is_answered_at_once(api, payment, prefer, applied, happened):
    key = new_name("key")
    first = pay(api, payment, None, key)
    happened(Settlement.objects.get(tx=first.json()["tx"]))
    began = time.monotonic()

    again = pay(api, payment, prefer, key)

    assert time.monotonic() - began < 10
    assert_waited(again, first, applied)


@pytest.mark.parametrize("prefer", [None, "wait=0", "wait=soon", "respond-async", "wait"])
def test_without_a_wait_nothing_says_that_there_was_one(api, payment, prefer):
    answer = pay(api, payment, prefer)

    assert answer.status_code == 201
    assert "Preference-Applied" not in answer


def test_a_refusal_does_not_wait(api, payment):
    pause_agent(payment["agentId"], by="ann")

    answer = pay(api, payment, "wait=30")

    error_of(answer, 403, "agent_paused")
    assert "Preference-Applied" not in answer


def test_when_too_many_wait_the_answer_comes_at_once_and_says_nothing(api, payment):
    with full(waiting_room, MOST_WAITING):
        answer = pay(api, payment, f"wait={LONGEST_WAIT_S}")

    assert answer.status_code == 201
    assert "Preference-Applied" not in answer


# --- Over HTTP, on the real chain
@pytest.fixture(scope="module")
def server(django_db_setup: None, django_db_blocker: Any) -> Iterator[str]:
    """A server with the threads that the Procfile gives it."""
    with django_db_blocker.unblock(), Servers() as servers:
        yield servers.urls[0].removeprefix("http://")


class Payer:
    """An agent that pays over HTTP. Its `Prefer` headers are sent one by one, which `requests` would not."""

    def __init__(self, server: str, localnet: Localnet = EVM) -> None:
        self._server = server
        self.agent = make_agent()
        service = localnet.make_service()
        self._body = {"agentId": self.agent.id, "service": service.id, "asset": "USDC", "reason": "A test"}
        self._key = make_api_key()

    def pay(self, key: str, *prefer: str) -> tuple[int, bytes, http.client.HTTPMessage]:
        connection = http.client.HTTPConnection(self._server, timeout=PATIENCE_S)
        connection.putrequest("POST", PATH)
        body = json.dumps({**self._body, "amount": "1.00"}).encode()
        for name, value in {
            "Authorization": f"Bearer {self._key}",
            "Idempotency-Key": key,
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
        }.items():
            connection.putheader(name, value)
        for value in prefer:
            connection.putheader("Prefer", value)
        connection.endheaders(body)
        with connection.getresponse() as response:
            answer = response.status, response.read(), response.headers
        connection.close()
        return answer


_BACKENDS = """
SELECT pid, state, xact_start IS NOT NULL, backend_xid IS NOT NULL OR backend_xmin IS NOT NULL,
       (SELECT count(*) FROM pg_locks WHERE pg_locks.pid = pg_stat_activity.pid)
  FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%%EXISTS%%payments_payment%%'
   AND query_start > %s
"""


def find_waiting(since: datetime) -> list[tuple[Any, ...]]:
    """Find the database sessions whose last statement, since then, looked whether a payment is on chain."""
    with connection.cursor() as cursor:
        cursor.execute(_BACKENDS, [since])
        return list(cursor.fetchall())


@pytest.mark.parametrize("localnet", LOCALNETS, ids=lambda one: one.alias)
def test_a_request_waits_for_its_block_and_holds_nothing_meanwhile(committed, server, localnet):
    localnet.observe()
    payer, key = Payer(server, localnet), new_name("key")
    began = utc_now()
    with ThreadPoolExecutor(1) as client:
        waiting = client.submit(payer.pay, key, "respond-async", "wait=30")
        deadline = time.monotonic() + PATIENCE_S
        seen: list[tuple[Any, ...]] = []
        while len(seen) < 20:
            assert time.monotonic() < deadline
            seen += [one for one in find_waiting(began) if one[1] == "idle"]
            assert [one for one in find_waiting(began) if one[1].startswith("idle in transaction")] == []
        assert {one[1:] for one in seen} == {("idle", False, False, 0)}
        # Its agent is not locked: another request of the same agent is decided meanwhile.
        assert payer.pay(new_name("key"))[0] == 201
        assert not waiting.done()

        localnet.drain()
        status, body, headers = waiting.result(PATIENCE_S)

    assert status == 201
    assert json.loads(body)["status"] == "approved"
    assert headers["Preference-Applied"] == "wait=30"
    payment_id = json.loads(body)["id"]
    assert Settlement.objects.get(payments=payment_id, chain=localnet.caip2).state in ("included", "final")
    again = payer.pay(key, "wait=30")
    assert again[:2] == (status, body)
    assert (again[2]["Preference-Applied"], again[2]["Idempotent-Replayed"]) == ("wait=30", "true")


def test_those_who_wait_leave_room_for_those_who_do_not(committed, server):
    payers = [Payer(server) for _ in range(4 * MOST_WAITING)]
    with ThreadPoolExecutor(len(payers)) as clients:
        waiting = [clients.submit(payer.pay, new_name("key"), "wait=30") for payer in payers]
        # Two processes have so many places; the others are not kept.
        list(itertools.islice(as_completed(waiting, PATIENCE_S), len(payers) - 2 * MOST_WAITING))

        assert payers[0].pay(new_name("key"))[0] == 201
        EVM.drain()
        answers = [one.result(PATIENCE_S) for one in waiting]

    assert {status for status, _, _ in answers} == {201}
    applied = [headers["Preference-Applied"] for _, _, headers in answers]
    assert applied.count("wait=30") <= 2 * MOST_WAITING
    assert set(applied) == {"wait=30", None}
