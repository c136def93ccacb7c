"""How the log is read when it is long: by an index that fits, and never for long."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest
import requests
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client

from foundation.database import brief_read
from foundation.kernel.ids import new_id
from ledger.models import LogEntry
from ledger.queries import log_page, read_log_page
from ledger.receipts import receipt
from tests.support.answers import error_of
from tests.support.factories import decide, make_agent, make_api_key, make_service, new_name

STARTED_AT = datetime(2026, 11, 20, tzinfo=UTC)
# A flood of refusals with a few payments before and behind it, in time order, for each of two agents.
HISTORY = """
    INSERT INTO ledger_logentry (id, agent_id, service, amount, asset, result, rule, created_at, reason,
                                 policy_revision, payment_id, tx, explanation_json, hash, previous_hash, signature,
                                 key_id, spent_total)
    SELECT id, %s, 's', '1', 'USDC',
           CASE WHEN is_paid THEN 'approved' ELSE 'blocked' END, 'under_max_payment', at, 'r', 1,
           CASE WHEN is_paid THEN 'pay_' || substr(id, 5) END, CASE WHEN is_paid THEN '0x' END, '{}', '', '', '', '', 0
      FROM (SELECT id, at, n %% 9000 < 3 AS is_paid
              FROM unnest(%s::text[], %s::timestamptz[]) WITH ORDINALITY rows(id, at, n)) rows
"""


@pytest.fixture
def long_log(db):
    """Two agents with a long log."""
    agents = [make_agent().id for _ in range(2)]
    with connection.cursor() as cursor:
        for number, agent_id in enumerate(agents):
            times = [STARTED_AT + timedelta(seconds=second, milliseconds=number) for second in range(10_001)]
            cursor.execute(HISTORY, [agent_id, [new_id("log", moment) for moment in times], times])
        # What other tests inserted and rolled back is still in the indexes, and would mislead the planner.
        cursor.execute("REINDEX TABLE ledger_logentry")
        cursor.execute("ANALYZE ledger_logentry")
    return agents


def nodes_of(plan: dict[str, Any]):
    yield plan
    for inner in plan.get("Plans", []):
        yield from nodes_of(inner)


def test_a_page_of_the_log_reads_no_entry_that_it_does_not_show(long_log):
    """However far from the newest entry it begins: the index leads to its first entry."""
    blocked = LogEntry.objects.filter(agent_id=long_log[0], result="blocked").order_by("-id")
    for agent_id, result, before in product((None, long_log[0]), (None, "approved", "blocked"), (None, 500, 5000)):
        before_id = None if before is None else blocked[before].id
        statement, parameters = log_page(agent_id=agent_id, result=result, before_id=before_id, size=26)
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters)
            plan = cursor.fetchone()[0][0]["Plan"]
        shown, has_more = read_log_page(agent_id=agent_id, result=result, before_id=before_id, size=25)

        scans = [node for node in nodes_of(plan) if "Scan" in node["Node Type"]]
        assert [node["Node Type"] for node in scans] == ["Index Scan"], (agent_id, result, before_id, plan)
        assert scans[0].get("Rows Removed by Filter", 0) == 0, (agent_id, result, before_id, plan)
        assert len(shown) + has_more == scans[0]["Actual Rows"] <= 26


def test_the_ten_thousandth_page_reads_as_many_blocks_as_the_first(long_log):
    """Pages of one entry: with both filters, and with none."""
    for agent_id, result in ((long_log[0], "blocked"), (None, None)):
        entries = LogEntry.objects.filter(**({"agent_id": agent_id, "result": result} if agent_id else {}))
        last = entries.order_by("-id")[9_980].id
        first_page, last_page = (blocks(agent_id, result, before_id) for before_id in (None, last))

        # The index is some levels deep; from one of its leaves to the next is one block more.
        assert last_page <= first_page + 2


def blocks(agent_id, result, before_id):
    """Count the blocks that reading a page of one entry takes."""
    statement, parameters = log_page(agent_id=agent_id, result=result, before_id=before_id, size=1)
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", parameters)
        plan = cursor.fetchone()[0][0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


@pytest.mark.usefixtures("committed")
def test_a_read_that_takes_too_long_ends_with_503_in_the_envelope_and_frees_its_thread(servers):
    agent, service, key = make_agent(), make_service(), make_api_key()
    payment_id = decide(agent, service).payment_id
    paths = ["/v1/logs", f"/v1/logs?agentId={agent.id}", f"/v1/agents/{agent.id}/budget", f"/v1/payments/{payment_id}"]

    def ask(path):
        return requests.get(servers.urls[0] + path, headers={"Authorization": f"Bearer {key}"}, timeout=60)

    with ThreadPoolExecutor(len(paths)) as pool:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("LOCK TABLE ledger_logentry IN ACCESS EXCLUSIVE MODE")
            began = time.monotonic()
            answers = list(pool.map(ask, paths))
            assert time.monotonic() - began < 50
        again = list(pool.map(ask, paths))

    assert [answer.status_code for answer in answers] == [503] * len(paths)
    assert {answer.json()["error"]["code"] for answer in answers} == {"policy_signer_unavailable"}
    assert {answer.headers["Retry-After"] for answer in answers} == {"5"}
    assert [answer.status_code for answer in again] == [200] * len(paths)


@pytest.mark.usefixtures("committed")
def test_only_the_read_itself_has_to_be_brief_not_what_its_connection_does_next():
    def timeout():
        with connection.cursor() as cursor:
            cursor.execute("SHOW statement_timeout")
            return cursor.fetchone()[0]

    with brief_read():
        assert timeout() == "5s"
    assert timeout() == "0"
    key = make_api_key()
    assert (
        Client(SERVER_NAME="localhost").get("/v1/logs", headers={"authorization": f"Bearer {key}"}).status_code == 200
    )
    assert timeout() == "0"


@pytest.mark.usefixtures("committed")
def test_a_console_page_that_takes_too_long_says_so(monkeypatch):
    monkeypatch.setattr("foundation.database._LONGEST_READ_MS", 200)
    staff = Client(SERVER_NAME="localhost", raise_request_exception=False)
    staff.force_login(User.objects.create_superuser(new_name("staff")))
    other = connection.copy()
    other.set_autocommit(False)
    try:
        with other.cursor() as cursor:
            cursor.execute("LOCK TABLE ledger_logentry IN ACCESS EXCLUSIVE MODE")
        response = staff.get("/console/ledger/logentry/")
    finally:
        other.close()

    assert response.status_code == 503
    assert "This takes too long to read" in response.content.decode()
    assert staff.get("/console/ledger/logentry/").status_code == 200


def test_an_entry_whose_metadata_no_canonical_form_could_hold_is_shown_all_the_same(api, agent, payment):
    """Such an entry could not be sealed; one is put there as an administrator of the database could."""
    api.pay(payment)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(
            "UPDATE ledger_logentry SET metadata_json = '{\"a\":10000000000000000}' WHERE agent_id = %s", [agent.id]
        )

    (entry,) = api.get("/v1/logs", {"agentId": agent.id}).json()["data"]

    assert entry["metadata"] == {"a": 10**16}
    assert api.get(f"/v1/payments/{entry['paymentId']}").status_code == 200


@pytest.mark.parametrize("number", ["1e16", "9007199254740992.0", "-1E+20", "123456789012345678901.5"])
def test_a_whole_number_that_is_too_long_is_400_however_it_is_written(api, agent, payment, number):
    body = b'{"agentId":"%b","service":"%b","amount":"1","asset":"USDC","reason":"r","metadata":{"a":%b}}' % (
        agent.id.encode(), payment["service"].encode(), number.encode()
    )  # fmt: skip

    error = error_of(api.pay(body), 400, "invalid_request")

    assert [field["param"] for field in error["fields"]] == [""]
    assert not LogEntry.objects.filter(agent=agent).exists()


def test_what_the_database_writes_of_an_entry_is_its_receipt(api, agent, payment):
    odd = '\u00fc \U0001f600 \u2028 \ufeff \x01\x1f\x7f \b\t\n\f\r " \\ / </script>'
    for number, metadata in enumerate([None, {}, {odd: [odd, 1.5, 1e21, 1e-7, -0.0, 2**53 - 1, True, None]}]):
        api.pay({**payment, "reason": f"{number} {odd}", "metadata": metadata, "amount": "1.5" if number else "10.01"})

    page = api.get("/v1/logs", {"agentId": agent.id}).json()["data"]

    entries = LogEntry.objects.filter(agent=agent).order_by("-id")
    assert [json.dumps(entry) for entry in page] == [json.dumps(receipt(entry)) for entry in entries]
    assert len(page) == 3
