"""Bring an empty database from the migrations on standard input (pairs of an app and its last) to the newest ones.

Each of ours that commits as it goes is interrupted after each of its operations first. As JSON on standard output:
`held`: for each migration, of which tables it kept others out at once; `interruptions`: how often one was interrupted;
`schema`: what came out.
"""

import json
import sys
from typing import Any

import django
import pytest
from django.db import connection
from django.db.migrations import Migration
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

from tests.support.schema import read_schema
from workshop.localnet.folder import ROOT

_TABLES = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
# By locks that conflict with writing rows, or with reading them.
_HELD = """
SELECT DISTINCT coalesce(indrelid, relation)::regclass::text
  FROM pg_locks LEFT JOIN pg_index ON indexrelid = relation
 WHERE pid = pg_backend_pid() AND granted AND locktype = 'relation'
   AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
"""


class Interrupted(Exception):
    """The run ends here."""


class Interruption(Operation):
    """What a migration has in the place of the operation that it does not get to."""

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Change nothing."""

    def database_forwards(self, *_arguments: Any) -> None:
        raise Interrupted


def read_names(query: str) -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return {name for (name,) in cursor.fetchall()}


def interrupt(executor: MigrationExecutor, migration: Migration, state: ProjectState) -> int:
    """Interrupt a migration after each of its operations; returns how often."""
    for done in range(1, len(migration.operations)):
        operations = [*migration.operations[:done], Interruption()]
        shorter = type("Migration", (type(migration),), {"operations": operations})
        with pytest.raises(Interrupted):
            executor.apply_migration(state.clone(), shorter(migration.name, migration.app_label))
    return len(migration.operations) - 1


def watch(held: set[str]) -> Any:
    """Make what Django calls around each statement: it adds to `held`, within the transaction."""
    is_asking = False

    def around(execute: Any, sql: Any, parameters: Any, many: bool, context: Any) -> Any:
        nonlocal is_asking
        result = execute(sql, parameters, many, context)
        if not is_asking:
            is_asking = True
            held.update(read_names(_HELD))
            is_asking = False
        return result

    return around


def main() -> None:
    django.setup()
    executor = MigrationExecutor(connection)
    known = [(app, name) for app, name in json.load(sys.stdin)]
    executor.migrate(known)
    executor.loader.build_graph()
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    state = executor.loader.project_state(list(executor.loader.applied_migrations))
    found: dict[str, list[str]] = {}
    interruptions = 0
    for migration, _ in plan:
        if not (ROOT / migration.app_label).is_dir():
            state = executor.apply_migration(state, migration)
            continue
        if not migration.atomic:
            interruptions += interrupt(executor, migration, state)
        tables, held = read_names(_TABLES), set[str]()
        with connection.execute_wrapper(watch(held)):
            state = executor.apply_migration(state, migration)
        found[str(migration)] = sorted(tables & held)
    with connection.cursor() as cursor:
        schema = read_schema(cursor)
    json.dump({"held": found, "interruptions": interruptions, "schema": schema}, sys.stdout)


main()
