"""Everything works through PgBouncer in transaction mode: each transaction may have another session of PostgreSQL's.

With Debian's package. Its pool is smaller than the number of threads that use it: they wait for each other's sessions.
"""

import itertools
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal

import psycopg
import pytest
import requests
from django.conf import settings
from django.contrib.auth.models import Group

from foundation.kernel.assets import Asset
from ledger.models import LogEntry
from payments.models import Payment
from tests.growing.staff import Staff
from tests.support.factories import decide, make_agent, make_api_key, make_service, new_name
from tests.support.house import House, server_environment
from tests.support.invariants import check_agent, check_nonces
from tests.support.kills import wait_until
from tests.support.local_ids import LOCALNET
from tests.support.localnets import EVM
from tests.support.pooler import Pooler, pooler
from tests.support.servers import Servers
from tests.support.storms import Shot, strike

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.long(25)]
_SESSIONS = 3
# Debian 12's PgBouncer, 1.18, keeps no prepared statements: they came with 1.21.
_VARIABLES = {"PREPARED_STATEMENTS": "false"}


@pytest.fixture(scope="module")
def bouncer(django_db_setup: None, django_db_blocker) -> Iterator[Pooler]:
    with django_db_blocker.unblock(), pooler(_SESSIONS) as running:
        yield running


@pytest.fixture(scope="module")
def pooled(bouncer: Pooler, django_db_blocker) -> Iterator[Servers]:
    """Two web servers of two processes each, with many more threads than the pool has sessions."""
    variables = {**_VARIABLES, "DATABASE_URL": bouncer.url}
    with django_db_blocker.unblock(), Servers(variables=[variables] * 2) as running:
        yield running


@pytest.fixture(autouse=True)
def full_pool(bouncer: Pooler) -> None:
    """Have the pool open all its sessions, so that no two transactions in a row get the same one."""
    with ExitStack() as stack:
        for _ in range(_SESSIONS):
            stack.enter_context(bouncer.connect()).execute("BEGIN")


def test_what_is_set_or_prepared_in_a_session_is_lost_with_the_transaction(bouncer):
    """The control: what relied on a session of its own would fail here."""
    with bouncer.connect() as client:
        client.prepare_threshold = None
        client.execute("SET lock_timeout = '7s'")
        seen = Counter(client.execute("SHOW lock_timeout").fetchone() for _ in range(2 * _SESSIONS))
        client.execute("PREPARE is_lost AS SELECT 1")
        with pytest.raises(psycopg.errors.InvalidSqlStatementName):
            client.execute("EXECUTE is_lost")
        for _ in range(_SESSIONS):
            client.execute("DISCARD ALL")

    assert seen == {("7s",): 2, ("0",): 2 * (_SESSIONS - 1)}


def test_the_time_zone_stays_with_its_client(bouncer):
    """The one setting that Django makes for a whole session: PgBouncer itself keeps it for each client."""
    with bouncer.connect() as client, bouncer.connect() as other:
        client.prepare_threshold = other.prepare_threshold = None
        client.execute("SELECT set_config('TimeZone', 'Asia/Tokyo', false)")

        seen = {one: {one.execute("SHOW timezone").fetchone() for _ in range(2 * _SESSIONS)} for one in (client, other)}

    assert seen == {client: {("Asia/Tokyo",)}, other: {("UTC",)}}


def test_a_storm_with_duplicates_through_the_pool_spends_no_more_than_the_limit(pooled, bouncer):
    agent = make_agent(daily_limit="20", weekly_limit="100")
    service, key = EVM.make_service(), make_api_key()
    body = {"agentId": agent.id, "service": service.id, "amount": "1.00", "asset": "USDC", "reason": "A storm"}
    urls = itertools.cycle(pooled.urls)
    keys = [new_name("key") for _ in range(60)]

    answers = strike([Shot(next(urls), key, one, body) for one in keys * 3])

    assert Counter(answer.status for answer in answers) == {201: 60, 422: 120}
    assert Counter(answer.is_replay for answer in answers if answer.status == 201) == {False: 20, True: 40}
    entries = LogEntry.objects.filter(agent=agent)
    assert Counter(entries.values_list("idempotency_key", flat=True)) == Counter(keys)
    assert Counter(entries.values_list("result", flat=True)) == {"approved": 20, "blocked": 40}
    assert sum(Payment.objects.filter(agent=agent).values_list("amount", flat=True)) == Decimal(20)
    assert len(bouncer.show("SERVERS")) <= _SESSIONS
    check_agent(agent.id)
    check_nonces(LOCALNET)


def test_payments_are_settled_by_a_worker_behind_the_pool(pooled, bouncer, tmp_path):
    agent, service = make_agent(), EVM.make_service()
    headers = {"Authorization": f"Bearer {make_api_key()}"}
    EVM.observe()
    with House(tmp_path) as house:
        house.start("worker", "--beat", WORKER_CONCURRENCY="2", DATABASE_URL=bouncer.url, **_VARIABLES)
        body = {"agentId": agent.id, "service": service.id, "amount": "0.25", "asset": "USDC", "reason": "A test"}
        ids = []
        for url in pooled.urls * 2:
            answer = requests.post(
                f"{url}/v1/payments/request",
                json=body,
                headers={**headers, "Idempotency-Key": new_name("key")},
                timeout=30,
            )
            assert answer.status_code == 201, answer.text
            ids.append(answer.json()["id"])

        def all_are_settled() -> bool:
            house.check()
            found = [requests.get(f"{pooled.urls[0]}/v1/payments/{one}", headers=headers, timeout=30) for one in ids]
            return all(one.json()["status"] == "settled" for one in found)

        wait_until(all_are_settled, f"all are settled, see {tmp_path}")

    assert EVM.balance_of(Asset.USDC, service.address) == 1_000_000
    assert "prepared statement" not in house.log_of("worker").read_text()
    check_agent(agent.id)


def test_the_log_is_verified_through_the_pool(bouncer):
    agent, service = make_agent(), make_service()
    for _ in range(3):
        decide(agent, service)

    done = subprocess.run(
        [sys.executable, "manage.py", "verify_log", "--agent", agent.id],
        env={**server_environment(), **_VARIABLES, "DATABASE_URL": bouncer.url},
        cwd=settings.BASE_DIR,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout


def test_a_form_that_is_shown_again_has_its_choices(pooled):
    """Django reads them in pieces, outside of any transaction: with PostgreSQL's own cursors unless told not to."""
    with Staff(pooled.urls[0]) as staff:
        account = {"username": "not a name", "name": "Ada", "email": "ada@example.com", "roles": "Auditor"}
        shown = staff.send("auth/user/add/", **account, reason="A test")

    assert "Enter a valid username" in shown
    assert all(name in shown for name in Group.objects.values_list("name", flat=True))
