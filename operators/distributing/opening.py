"""Make each node ready to work for the groups that it has: `open.sql` says what that is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from foundation.database import fetch_rows, write_rows
from operators.distributing.places import COPIED, ENTRIES, OF_GROUPS
from policy.key_operations import write_revocations

_SQL = Path(__file__).parent / "open.sql"
# The coordinator has no groups, but what is on every node.
_PLACES = """
    SELECT n.nodename, n.nodeport, array_remove(array_agg(p.number ORDER BY p.number), NULL)
      FROM pg_dist_node n LEFT JOIN distributed_place p ON p.host = n.nodename AND p.port = n.nodeport
     WHERE n.noderole = 'primary' AND n.isactive GROUP BY n.nodename, n.nodeport ORDER BY n.nodename, n.nodeport
"""
# The columns that a later release has added to what groups have copies of.
_MISSING = """
    SELECT c.relname, quote_ident(a.attname), format_type(a.atttypid, a.atttypmod)
      FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
     WHERE c.relnamespace = 'public'::regnamespace AND c.relname = ANY (%(copied)s)
       AND a.attnum > 0 AND NOT a.attisdropped
       AND NOT EXISTS (SELECT FROM pg_attribute b WHERE b.attrelid = ('distributed_copy_of_' || c.relname)::regclass
                          AND b.attname = a.attname AND NOT b.attisdropped)
     ORDER BY c.relname, a.attnum
"""
_TRIGGERS = """
    SELECT COALESCE(jsonb_agg(jsonb_build_object(
               'table_name', c.relname, 'name', tgname, 'definition', pg_get_triggerdef(t.oid))), '[]')::text
      FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid
     WHERE NOT tgisinternal AND c.relnamespace = 'public'::regnamespace AND c.relname = ANY (%(tables)s)
"""
_FUNCTIONS = """
    SELECT pg_get_functiondef(p.oid) FROM pg_proc p
     WHERE p.pronamespace = 'public'::regnamespace AND p.prokind = 'f' AND p.proname NOT LIKE 'distributed\\_%%'
       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e') ORDER BY p.oid
"""


def open_groups(tell: Callable[[str], None]) -> int:
    """Open all groups, each on its node; returns how many. Who works for one waits for a moment."""
    fetch_rows("SELECT replicate_reference_tables()", {})  # to nodes that were added
    with transaction.atomic():
        _complete_copies()
    count = 0
    for host, port, numbers in fetch_rows(_PLACES, {}):
        tell(f"Opening {len(numbers)} groups on {host}:{port}")
        _open_on(str(host), int(port), numbers)
        count += len(numbers)
    return count


def _complete_copies() -> None:
    write_rows("SET LOCAL citus.multi_shard_modify_mode = 'sequential'", {})
    for table, column, kind in fetch_rows(_MISSING, {"copied": [*COPIED]}):
        copy, key = f"distributed_copy_of_{table}", COPIED[table]
        write_rows(f"ALTER TABLE {copy} ADD COLUMN {column} {kind}", {})
        fill = f"UPDATE {copy} SET {column} = %(value)s::{kind} WHERE {key} = %(row)s"  # noqa: S608 - our own names
        for row, value in fetch_rows(f"SELECT {key}, {column}::text FROM {table}", {}):  # noqa: S608
            write_rows(fill, {"value": value, "row": row})


def open_group(number: int, host: str, port: int) -> None:
    """Open a group on the node that has it now."""
    _open_on(host, port, [number])


def _open_on(host: str, port: int, numbers: list[int]) -> None:
    functions = [definition for (definition,) in fetch_rows(_FUNCTIONS, {})]
    triggers = fetch_rows(_TRIGGERS, {"tables": [*OF_GROUPS]})[0][0]
    node = connect(host, port)
    try:
        with node.cursor() as cursor:
            cursor.execute("SET citus.enable_ddl_propagation = off; SET check_function_bodies = off")
            cursor.execute(_SQL.read_text())
            cursor.execute("SELECT distributed_open_node()")
            # One that had no group was told of none (`on_own_copies`).
            cursor.execute(*write_revocations())
            for definition in functions:
                cursor.execute(definition)
            for number in numbers:
                cursor.execute("SELECT distributed_open(%s, %s, %s)", [number, list(ENTRIES), triggers])
    finally:
        node.close()


def connect(host: str, port: int) -> BaseDatabaseWrapper:
    """Make a connection to a node, with the name and password of `DATABASE_URL`."""
    node: Any = connections.create_connection(DEFAULT_DB_ALIAS)
    node.settings_dict = {**node.settings_dict, "HOST": host, "PORT": port}
    return node  # type: ignore[no-any-return]
