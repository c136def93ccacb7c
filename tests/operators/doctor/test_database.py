"""Faults of the database, each planted for real: in a role's settings, in the server, on the way to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, connections

from foundation.replica import ALIAS
from operators.doctor.diagnoses import State
from tests.operators.doctor.diagnosis import the_trouble, trouble_with, troubles
from tests.support.clocks import shadow_clock
from tests.support.kills import wait_until
from tests.support.pooler import pooler
from tests.support.ports import free_ports
from tests.support.tls import Authority, in_front_of
from workshop.localnet import postgres
from workshop.localnet.folder import open_folder

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.long(15)]

ROLE, EMPTY = "doctors_patient", "doctors_latin"


@pytest.fixture(scope="module")
def role(django_db_setup: None, django_db_blocker: Any) -> Iterator[str]:
    """Make a role that may do all that the tests' superuser may with its database, and is none."""
    with django_db_blocker.unblock():
        execute(f"CREATE ROLE {ROLE} LOGIN; GRANT {postgres.USER} TO {ROLE}")
        yield ROLE
        execute(f"DROP OWNED BY {ROLE}; DROP ROLE {ROLE}")


@pytest.fixture(autouse=True)
def _as_role(role: str) -> Iterator[None]:
    with connected(USER=role):
        yield


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


@contextmanager
def connected(**changes: Any) -> Iterator[None]:
    """Connect in another way until the block ends; `OPTIONS` are added."""
    own = connections["default"]
    made = own.copy()
    made.settings_dict |= {**changes, "OPTIONS": {**own.settings_dict["OPTIONS"], **changes.get("OPTIONS", {})}}
    connections["default"] = made
    try:
        yield
    finally:
        made.close()
        connections["default"] = own


@contextmanager
def altered(what: str) -> Iterator[None]:
    """Give the role a setting that holds for new sessions, and connect anew."""
    execute(f"ALTER ROLE {ROLE} SET {what}")
    try:
        with connected():
            yield
    finally:
        with connected(USER=postgres.USER):
            execute(f"ALTER ROLE {ROLE} RESET ALL")


def test_a_role_like_that_finds_nothing():
    assert troubles("database") == []


def test_nothing_listens():
    with connected(HOST="127.0.0.1", PORT=str(free_ports(1)[0]), PASSWORD="a-password"):
        found = the_trouble("database")
        assert troubles("staff", "books") == []
    assert (found.subject, found.state) == ("connection", State.ERROR)
    assert "refused" in found.says
    assert found.mend.startswith("Start PostgreSQL, or correct the host and port in DATABASE_URL")
    assert "a-password" not in str(found)


def test_there_is_no_such_role():
    with connected(USER="nobody-knows"):
        found = the_trouble("database")
    assert 'role "nobody-knows" does not exist' in found.says
    assert found.mend == """SQL: CREATE ROLE "nobody-knows" LOGIN PASSWORD '…';"""


def test_another_encoding_and_no_migrations():
    with connected(USER=postgres.USER):
        execute(f"CREATE DATABASE {EMPTY} OWNER {ROLE} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
        try:
            with connected(USER=ROLE, NAME=EMPTY):
                encoding, migrations = trouble_with("database", "encoding"), trouble_with("database", "migrations")
        finally:
            execute(f"DROP DATABASE {EMPTY}")
    assert "The database is in LATIN1" in encoding.says
    assert "ENCODING 'UTF8' TEMPLATE template0" in encoding.mend
    assert "apps lack migrations" in migrations.says
    assert migrations.mend == "python manage.py migrate"


def test_a_superuser(settings):
    settings.EMBEDDED = False
    with connected(USER=postgres.USER):
        found = trouble_with("database", "superuser")
    assert found.state == State.WARNING
    assert found.mend.startswith(f'SQL: ALTER ROLE "{postgres.USER}" NOSUPERUSER;')


def test_a_role_without_rights():
    with connected(USER=postgres.USER):
        execute(f"REVOKE {postgres.USER} FROM {ROLE}")
    try:
        with connected():
            ddl, ownership, dml = (trouble_with("database", one) for one in ("DDL", "ownership", "DML"))
    finally:
        with connected(USER=postgres.USER):
            execute(f"GRANT {postgres.USER} TO {ROLE}")
    assert ddl.mend == f'SQL: GRANT USAGE, CREATE ON SCHEMA "public" TO "{ROLE}";'
    assert f'OWNER TO "{ROLE}"' in ownership.mend
    assert dml.mend.startswith("SQL: GRANT SELECT, INSERT, UPDATE, DELETE")


def test_a_trigger_that_is_off_and_a_function_that_is_another_one():
    with connected(USER=postgres.USER):
        execute("ALTER TABLE ledger_logentry DISABLE TRIGGER append_only")
        execute("ALTER FUNCTION ledger_total_at RENAME TO ledger_total_gone")
        try:
            with connected(USER=ROLE):
                trigger = trouble_with("database", "ledger_logentry.append_only")
                function = trouble_with("database", "ledger_total_at")
        finally:
            execute("ALTER FUNCTION ledger_total_gone RENAME TO ledger_total_at")
            execute("ALTER TABLE ledger_logentry ENABLE TRIGGER append_only")
    assert trigger.mend.startswith('SQL: ALTER TABLE "ledger_logentry" ENABLE TRIGGER "append_only";')
    assert "is missing" in function.says
    assert function.mend.startswith("python manage.py migrate")


def test_a_server_whose_pages_may_be_half_written():
    with connected(USER=postgres.USER):
        execute("ALTER SYSTEM SET full_page_writes = off")
        execute("SELECT pg_reload_conf()")
    try:
        wait_until(lambda: _is_found("full_page_writes"), "full_page_writes is off")
        found = trouble_with("database", "full_page_writes")
    finally:
        with connected(USER=postgres.USER):
            execute("ALTER SYSTEM RESET full_page_writes")
            execute("SELECT pg_reload_conf()")
    assert found.says == "A crash can leave pages half written."
    assert found.mend == "SQL: ALTER SYSTEM SET full_page_writes = on; SELECT pg_reload_conf();"


def _is_found(subject: str) -> bool:
    with connected():
        return subject in [one.subject for one in troubles("database")]


@pytest.mark.parametrize(
    ("setting", "subject", "state"),
    [
        ("synchronous_commit = off", "synchronous_commit", State.ERROR),
        ("statement_timeout = 5000", "statement_timeout", State.WARNING),
        ("default_transaction_read_only = on", "primary", State.ERROR),
    ],
)
def test_a_setting_of_the_role_that_loses_answers(setting, subject, state):
    with altered(setting):
        found = the_trouble("database")
    assert (found.subject, found.state) == (subject, state)
    assert found.mend == f'SQL: ALTER ROLE "{ROLE}" RESET {setting.split()[0]};'


def test_too_few_connections(monkeypatch):
    monkeypatch.setenv("WEB_CONCURRENCY", "16")
    found = the_trouble("database")
    assert found.subject == "connections"
    assert found.says.startswith("One web, worker and webhooks open up to 409 connections; 197 are allowed.")
    assert "ALTER SYSTEM SET max_connections = 419" in found.mend


def test_a_clock_that_is_ahead():
    path = shadow_clock("ahead", 90)
    with altered(f"search_path = {path}"):
        found = trouble_with("clocks", "database")
    assert "90 s ahead of this machine's" in found.says
    assert "python manage.py clocks" in found.mend


@pytest.mark.parametrize(("mode", "state"), [("disable", State.ERROR), ("require", State.WARNING)])
def test_a_way_through_the_network_without_a_verified_server(tmp_path, mode, state):
    socket = postgres.socket_folder(open_folder()) / f".s.PGSQL.{postgres.PORT}"
    with in_front_of(socket, Authority(tmp_path)) as port:
        far = {"HOST": "db.example", "PORT": str(port), "OPTIONS": {"hostaddr": "127.0.0.1", "sslmode": mode}}
        with connected(**far):
            found = the_trouble("database")
    assert (found.subject, found.state) == ("DATABASE_URL", state)
    assert found.mend.startswith("Put ?sslmode=verify-full&sslrootcert=system behind DATABASE_URL")


def test_a_pooler_that_forgets_prepared_statements():
    with pooler(2) as running, connected(HOST="127.0.0.1", PORT=str(running.port), USER=postgres.USER):
        found = the_trouble("database")
    assert (found.subject, found.state) == ("pooler", State.ERROR)
    assert found.mend.startswith("Set PREPARED_STATEMENTS=false")


def test_a_replica_that_is_none(settings):
    settings.DATABASES[ALIAS] = {**connection.settings_dict}
    try:
        found = the_trouble("database")
    finally:
        connections[ALIAS].close()
        del connections[ALIAS], settings.DATABASES[ALIAS]
    assert found.says.startswith("It is no standby of the primary")
    assert "DATABASE_REPLICA_URL" in found.mend
