"""The migration that lets an agent be told drops a foreign key while payments go on."""

import os
import threading
from contextlib import contextmanager
from importlib import import_module

import psycopg
import pytest

from tests.support.factories import new_name

DROP = import_module("services.migrations.0009_agents_are_told")._DROP_FOREIGN_KEY


@pytest.fixture
def connect():
    """Connect to tables that are named as those of services, in a schema of their own."""
    schema, address = new_name("drop").replace("-", "_"), os.environ["DATABASE_URL"]

    @contextmanager
    def open_it():
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f"SET search_path TO {schema}".encode())
            yield connection

    with psycopg.connect(address, autocommit=True) as admin:
        admin.execute(f"CREATE SCHEMA {schema}".encode())
        admin.execute(f"CREATE TABLE {schema}.services_service (id text PRIMARY KEY)".encode())
        admin.execute(
            f"CREATE TABLE {schema}.services_webhookendpoint (service_id text PRIMARY KEY"
            f" REFERENCES {schema}.services_service DEFERRABLE INITIALLY DEFERRED)".encode()
        )
        yield open_it
        admin.execute(f"DROP SCHEMA {schema} CASCADE".encode())


@pytest.mark.parametrize(
    "tables",
    [("services_webhookendpoint", "services_service"), ("services_service", "services_webhookendpoint")],
    ids=["as couriers", "as payments"],
)
def test_whoever_has_one_table_gets_the_other_while_the_migration_waits(tables, connect):
    first, second = tables
    with connect() as worker, connect() as migrating, connect() as reader:
        worker.execute("SET deadlock_timeout = '100ms'")
        worker.execute("BEGIN")
        worker.execute(f"LOCK TABLE {first} IN ROW EXCLUSIVE MODE".encode())
        migration = threading.Thread(target=lambda: migrating.execute(DROP.encode()))
        migration.start()
        migration.join(0.5)
        assert migration.is_alive()

        # Neither a deadlock nor a wait for the end of the migration.
        reader.execute("SET statement_timeout = '2s'")
        for table in (first, second):
            reader.execute(f"TABLE {table}".encode())
        worker.execute(f"LOCK TABLE {second} IN ROW EXCLUSIVE MODE".encode())
        worker.execute("COMMIT")
        migration.join(20)

        assert not migration.is_alive()
        found = reader.execute(
            "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND conrelid = 'services_webhookendpoint'::regclass"
        )
        assert found.fetchone() == (0,)
