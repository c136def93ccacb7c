"""Migrations that run while payments go on."""

import json
import os
import subprocess
import sys
from typing import Any

import psycopg
import pytest
from django.db import IntegrityError, connection
from django.db.migrations import AddIndex, CreateModel
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

from payments.models import Leg
from tests.payments.reconciling.test_shared_transactions import write_as_the_release_before
from tests.support.factories import new_name
from tests.support.last_release import files_of_last_release
from tests.support.scenes import Scene, transaction_of
from tests.support.schema import read_schema
from workshop.localnet.folder import ROOT

# Those before ran on every installation while nothing was paid.
FIRST = {"ledger": "0003", "payments": "0010", "policy": "0009"}
LEGS = [("payments", "0018_legs"), ("payments", "0019_legs_of_before")]
CONCURRENT = [
    ("ledger", "0004_log_by_result"),
    ("payments", "0013_read_indexes"),
    ("policy", "0010_revision_by_template"),
    ("policy", "0011_parents"),
    ("ledger", "0011_holds_above"),
]


@pytest.mark.parametrize("app", FIRST)
def test_no_index_of_a_table_that_may_be_long_is_built_while_payments_wait_for_it(app):
    for (label, name), migration in MigrationLoader(None).disk_migrations.items():
        if label != app or name < FIRST[app]:
            continue
        new = {one.name.lower() for one in migration.operations if isinstance(one, CreateModel)}
        built = [one for one in migration.operations if type(one) is AddIndex]
        assert [one.index.name for one in built if one.model_name not in new] == [], name


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("migration", CONCURRENT, ids=lambda one: one[1])
def test_a_build_of_indexes_that_was_interrupted_is_made_again(migration):
    executor = MigrationExecutor(connection)
    names = [
        one.index.name for one in executor.loader.get_migration(*migration).operations if isinstance(one, AddIndex)
    ]
    executor.recorder.record_unapplied(*migration)

    # All of its indexes are there, as if it had been killed before it was written down.
    MigrationExecutor(connection).migrate([migration])

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_index WHERE indexrelid::regclass::text = ANY(%s) AND indisvalid", [names]
        )
        assert cursor.fetchone() == (len(names),)


@pytest.mark.usefixtures("committed")
def test_what_the_release_before_ends_while_legs_are_made_is_live_no_more():
    """Its workers go on while this migrates, and before what `migrate` installs at its very end."""
    payment = Scene().pay()
    first = transaction_of(payment)
    executor = MigrationExecutor(connection)
    for migration in LEGS:
        executor.recorder.record_unapplied(*migration)
    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER legs_follow ON payments_settlement")

        MigrationExecutor(connection).migrate([LEGS[0]])
        cursor.execute("UPDATE payments_settlement SET state = 'expired' WHERE tx = %s", [first.tx])
        write_as_the_release_before(payment, "0xnew", "signed")
        MigrationExecutor(connection).migrate([LEGS[1]])

    assert set(Leg.objects.filter(payment=payment).values_list("settlement", "is_live")) == {
        (first.tx, False), ("0xnew", True)
    }  # fmt: skip
    with pytest.raises(IntegrityError):
        write_as_the_release_before(payment, "0xother", "signed")


@pytest.fixture(scope="module")
def upgraded() -> Any:
    """Have what became of a database of the last release, whose upgrade was interrupted again and again."""
    files = [path.split("/") for path in files_of_last_release() if "/migrations/0" in path]
    known = {app: name.removesuffix(".py") for app, _, name in sorted(files)}
    server, _, _ = os.environ["DATABASE_URL"].rpartition("/")
    database = new_name("upgraded")
    with psycopg.connect(f"{server}/postgres", autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{database}"'.encode())
        try:
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-m", "tests.allowance.migrations_interrupted"], cwd=ROOT, text=True,
                env={**os.environ, "DATABASE_URL": f"{server}/{database}"}, input=json.dumps([*known.items()]),
                capture_output=True, check=False,
            )  # fmt: skip
        finally:
            admin.execute(f'DROP DATABASE "{database}"'.encode())
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_no_migration_keeps_payments_out_of_one_table_while_it_waits_for_another(upgraded):
    held = upgraded["held"]

    assert {migration: tables for migration, tables in held.items() if len(tables) > 1} == {}
    # What adds a column keeps them out of its table: locks were seen.
    assert held["policy.0004_archived_agents"] == ["policy_agent"]


@pytest.mark.usefixtures("committed")
def test_a_migration_that_was_interrupted_anywhere_is_made_again(upgraded):
    with connection.cursor() as cursor:
        straight = read_schema(cursor)

    assert upgraded["interruptions"] > 0
    assert upgraded["schema"] == straight
