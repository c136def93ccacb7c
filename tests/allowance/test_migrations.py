"""Migrations that run while payments go on."""

import pytest
from django.db import connection
from django.db.migrations import AddIndex, CreateModel
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

# Those before ran on every installation while nothing was paid.
FIRST = {"ledger": "0003", "payments": "0010"}
CONCURRENT = [("ledger", "0004_log_by_result"), ("payments", "0011_gas_indexes")]


@pytest.mark.parametrize("app", FIRST)
def test_no_index_of_a_table_that_may_be_long_is_built_while_payments_wait_for_it(app):
    for (label, name), migration in MigrationLoader(None).disk_migrations.items():
        if label != app or name < FIRST[app]:
            continue
        new = {one.name.lower() for one in migration.operations if isinstance(one, CreateModel)}
        built = [one for one in migration.operations if type(one) is AddIndex]
        assert [one.index.name for one in built if one.model_name not in new] == [], name


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("migration", CONCURRENT, ids=lambda one: one[0])
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
