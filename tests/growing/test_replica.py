"""The log, budgets and the console's pages are read from a streaming replica, if there is one; nothing else is.

With a real one, a copy of the tests' own server that follows it, and a web server over HTTP.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
from django.conf import settings
from django.contrib.auth.models import User
from django.db import InterfaceError, OperationalError, ProgrammingError, connections, transaction
from django.http import Http404

from foundation import replica
from foundation.api.cursors import write_cursor
from foundation.database import brief_read, reading_alias, reading_connection, reading_from
from foundation.kernel.errors import AgentNotFound
from foundation.replica import ALIAS, Freshness, from_replica
from ledger.models import LogEntry
from policy.models import Agent
from tests.growing.staff import Staff
from tests.support.clusters import Cluster, url_of
from tests.support.factories import make_agent, make_api_key, make_service, new_name
from tests.support.kills import wait_until
from tests.support.servers import Servers
from workshop.localnet import postgres
from workshop.localnet.folder import open_folder

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.long(25)]
# What must never be asked of a replica: who calls, who is logged in, what a payment became, anything that decides.
_NEVER = re.compile(
    r"policy_apikey|django_session|auth_user|payments_lock_and_read|payments_record|INSERT |UPDATE |DELETE "
)


class Reader:
    """Somebody who reads over HTTP, of an agent and a service of their own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.agent, self.service = make_agent(), make_service()
        self._headers = {"Authorization": f"Bearer {make_api_key()}"}

    def budget(self, agent: Agent | None = None) -> dict[str, Any]:
        found: dict[str, Any] = self._get(f"/v1/agents/{(agent or self.agent).id}/budget")
        return found

    def log(self, after: str | None = None, key: str = "", agent: Agent | None = None) -> list[dict[str, Any]]:
        cursor = after and write_cursor(after, {"agentId": self.agent.id, "result": None})
        more = f"&cursor={cursor}" if cursor else f"&idempotencyKey={key}" if key else ""
        found: list[dict[str, Any]] = self._get(f"/v1/logs?agentId={(agent or self.agent).id}{more}")["data"]
        return found

    def payment(self, payment_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self._get(f"/v1/payments/{payment_id}")
        return found

    def payments(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._get(f"/v1/payments?agentId={self.agent.id}")["data"]
        return found

    def entry(self, entry_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self._get(f"/v1/logs/{entry_id}")
        return found

    def pay(self, key: str = "") -> str:
        asked = {"agentId": self.agent.id, "service": self.service.id}
        body = {**asked, "amount": "1.00", "asset": "USDC", "reason": "A test"}
        headers = {**self._headers, "Idempotency-Key": key or new_name("key")}
        answer = requests.post(f"{self.url}/v1/payments/request", json=body, headers=headers, timeout=30)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def _get(self, path: str) -> Any:
        answer = requests.get(f"{self.url}{path}", headers=self._headers, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()


class Standby(Cluster):
    """A replica that writes down what it is asked."""

    def asked(self, what: str) -> int:
        """Count the statements so far that name something, a pattern."""
        return sum(re.search(what, line) is not None for line in (self.socket / "log").read_text().splitlines())

    def pause(self) -> None:
        """Let it stay as it is, as one that falls behind."""
        self.execute("SELECT pg_wal_replay_pause()")
        wait_until(lambda: self.execute("SELECT pg_get_wal_replay_pause_state()") == [("paused",)], "it is paused")

    def resume(self) -> None:
        self.execute("SELECT pg_wal_replay_resume()")


@pytest.fixture(scope="module")
def standby(django_db_setup: None, django_db_blocker) -> Iterator[Standby]:
    with django_db_blocker.unblock():
        made = Standby(postgres.socket_folder(open_folder()), {"log_statement": "all"})
        made.start()
        yield made
        made.remove()


@pytest.fixture(scope="module")
def server(standby: Standby, django_db_blocker) -> Iterator[Servers]:
    variables = {"DATABASE_REPLICA_URL": url_of(standby), "WEB_CONCURRENCY": "1"}
    with django_db_blocker.unblock(), Servers(variables=[variables]) as running:
        yield running


@pytest.fixture
def reader(server: Servers, standby: Standby) -> Iterator[Reader]:
    yield Reader(server.urls[0])
    standby.resume()


@pytest.fixture
def in_process(standby: Standby) -> Iterator[Freshness]:
    """Know the replica in this process, too, where nobody has looked at it yet."""
    settings.DATABASES[ALIAS] = {**settings.DATABASES["default"], "HOST": str(standby.socket), "PORT": ""}
    replica.freshness = Freshness()
    yield replica.freshness
    connections[ALIAS].close()
    del connections[ALIAS], settings.DATABASES[ALIAS]
    standby.resume()


# --- Over HTTP --------------------------------------------------------------------------------------------------------
def test_the_log_budgets_and_pages_are_read_from_the_replica_and_nothing_else_is(reader, standby):
    payment = reader.pay()
    with Staff(reader.url) as staff:
        staff.forget("acted")
        _read_until_asked(standby, "ledger_logentry", reader.log)
        _read_until_asked(standby, "ledger_spent_since|ledger_budgets", reader.budget)
        _read_until_asked(standby, "payments_payment", lambda: staff.get("payments/payment/"))
    before = standby.asked("payments_payment")
    assert reader.payment(payment)["id"] == payment
    assert [one["id"] for one in reader.payments()] == [payment]
    assert standby.asked("payments_payment") == before
    assert not [line for line in (standby.socket / "log").read_text().splitlines() if _NEVER.search(line)]


def test_a_replica_that_falls_behind_is_left_alone(reader, standby):
    standby.pause()
    reader.pay()

    wait_until(lambda: reader.budget()["spentToday"] == "1.00", "the budget is the primary's")
    wait_until(lambda: [entry["result"] for entry in reader.log()] == ["approved"], "the log is the primary's")


def test_what_is_too_new_for_the_replica_is_found(reader, standby):
    standby.pause()

    assert reader.budget(make_agent())["balance"] == "1000.00"


def test_a_decision_that_is_too_new_for_the_replica_is_found(reader, standby):
    standby.pause()
    payment = reader.pay()

    assert reader.entry(LogEntry.objects.get(payment_id=payment).id)["paymentId"] == payment


def test_what_became_of_a_key_is_never_told_by_a_replica_that_does_not_know_yet(reader, standby):
    _read_until_asked(standby, "ledger_logentry", reader.log)
    standby.pause()
    payment = reader.pay(key := new_name("key"))

    assert [entry["paymentId"] for entry in reader.log(key=key)] == [payment]
    assert reader.log(agent=make_agent()) == []


def test_a_page_of_the_log_that_follows_one_of_the_primary_lacks_nothing(reader, standby):
    standby.pause()
    payments = [reader.pay() for _ in range(2)]
    older, newest = LogEntry.objects.filter(payment_id__in=payments).order_by("id")

    assert [entry["id"] for entry in reader.log(after=newest.id)] == [older.id]


def test_who_acts_in_the_console_acts_on_the_primary_and_sees_what_came_of_it(reader, standby):
    page = f"policy/agent/?q={reader.agent.id}"
    act = {"index": "0", "_selected_action": reader.agent.id, "reason": "Ticket 7"}
    with Staff(reader.url) as staff:
        standby.pause()

        assert f"Paused {reader.agent.id}." in staff.send(page, action="pause", **act)
        assert 'class="badge paused"' in staff.get(page)
        staff.forget("acted")
        staff.get(page)
        # Whatever that page showed: it is paused, and so it can be resumed.
        assert f"Resumed {reader.agent.id}." in staff.send(page, action="resume", **act)


def test_without_its_replica_every_read_is_answered(reader, standby):
    reader.budget()
    standby.kill()
    try:
        assert [reader.budget()["balance"] for _ in range(20)] == ["1000.00"] * 20
        assert reader.log() == []
    finally:
        standby.start()


# --- In this process --------------------------------------------------------------------------------------------------
def test_a_replica_counts_for_five_seconds_after_what_it_has(standby, in_process):
    now = [0.0]
    freshness = Freshness(clock=lambda: now[0])

    def look_later() -> bool:
        now[0] += 1
        return freshness.is_fresh()

    wait_until(look_later, "the replica has all")
    began = now[0]
    standby.pause()
    make_agent()
    seen = [(now[0] - began, look_later()) for _ in range(8)]

    last = max(second for second, is_fresh in seen if is_fresh)
    assert [is_fresh for _, is_fresh in seen] == [second <= last for second, _ in seen]
    assert 1 <= last < replica.MOST_BEHIND_S
    standby.resume()
    wait_until(look_later, "the replica has all again")


def test_within_a_transaction_of_the_primary_nothing_is_read_from_the_replica(in_process):
    read = from_replica(reading_alias)
    wait_until(lambda: read() == ALIAS, "it is read there")

    with transaction.atomic():
        assert read() == "default"
    assert (read(), reading_alias()) == (ALIAS, "default")


@pytest.mark.parametrize(
    "trouble", [AgentNotFound(), Http404(), OperationalError(), InterfaceError(), ProgrammingError()]
)
def test_what_the_replica_cannot_answer_the_primary_is_asked(in_process, trouble):
    asked = []

    @from_replica
    def read() -> str:
        asked.append(reading_alias())
        if reading_alias() == ALIAS:
            raise trouble
        return "found"

    wait_until(lambda: read() == "found" and ALIAS in asked, "both are asked")
    assert asked[-2:] == [ALIAS, "default"]


def test_what_takes_the_replica_too_long_the_primary_is_not_asked(in_process):
    asked = []

    @from_replica
    def read() -> None:
        asked.append(reading_alias())
        if reading_alias() == ALIAS:
            with brief_read(), reading_connection().cursor() as cursor:
                cursor.execute("SET LOCAL statement_timeout = 10")
                cursor.execute("SELECT pg_sleep(60)")

    with pytest.raises(OperationalError, match="statement timeout"):
        wait_until(read, "it is read there")
    assert asked[-1] == ALIAS


def test_a_server_that_is_no_standby_is_not_read_from(in_process):
    settings.DATABASES[ALIAS]["HOST"] = settings.DATABASES["default"]["HOST"]

    assert [in_process.is_fresh() for _ in range(2)] == [False, False]


def test_what_reads_from_the_replica_neither_writes_nor_locks():
    agent = make_agent()

    with reading_from(ALIAS):
        assert Agent.objects.all().db == ALIAS
        assert User.objects.all().db == "default"
        for write in (agent.save, agent.delete, lambda: Agent.objects.select_for_update().get(), make_agent):
            with pytest.raises(RuntimeError, match="must not write, nor lock: Agent"):
                write()
    assert Agent.objects.all().db == "default"


def _read_until_asked(standby: Standby, what: str, read: Callable[[], object]) -> None:
    """Read again and again until the replica is asked for something: by itself it is behind at first."""
    before = standby.asked(what)

    def is_asked() -> bool:
        read()
        return standby.asked(what) > before

    wait_until(is_asked, f"{what} is read there")
