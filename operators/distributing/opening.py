"""Make each node ready to work for the groups that it has: `open.sql` says what that is."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from foundation.database import fetch_rows
from operators.distributing.places import ENTRIES

_SQL = Path(__file__).parent / "open.sql"
_PLACES = """
    SELECT host, port, array_agg(number ORDER BY number) FROM distributed_place WHERE host IS NOT NULL
     GROUP BY host, port ORDER BY host, port
"""
_FUNCTIONS = """
    SELECT pg_get_functiondef(p.oid) FROM pg_proc p
     WHERE p.pronamespace = 'public'::regnamespace AND p.prokind = 'f' AND p.proname NOT LIKE 'distributed\\_%%'
       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e') ORDER BY p.oid
"""


def open_groups(tell: Callable[[str], None], only: Iterable[int] | None = None) -> int:
    """Open all groups, or some of them, each on its node; returns how many. Who works for one waits for a moment."""
    functions = [definition for (definition,) in fetch_rows(_FUNCTIONS, {})]
    count = 0
    for host, port, numbers in fetch_rows(_PLACES, {}):
        wanted = [number for number in numbers if only is None or number in only]
        if wanted:
            tell(f"Opening {len(wanted)} groups on {host}:{port}")
            count += _open_on(str(host), int(port), wanted, functions)
    return count


def _open_on(host: str, port: int, numbers: list[int], functions: list[str]) -> int:
    node = connect(host, port)
    try:
        with node.cursor() as cursor:
            cursor.execute("SET citus.enable_ddl_propagation = off; SET check_function_bodies = off")
            for definition in [*functions, _SQL.read_text()]:
                cursor.execute(definition)
            for number in numbers:
                cursor.execute("SELECT distributed_open(%s, %s)", [number, list(ENTRIES)])
    finally:
        node.close()
    return len(numbers)


def connect(host: str, port: int) -> BaseDatabaseWrapper:
    """Make a connection to a node, with the name and password of `DATABASE_URL`."""
    node: Any = connections.create_connection(DEFAULT_DB_ALIAS)
    node.settings_dict = {**node.settings_dict, "HOST": host, "PORT": port}
    return node  # type: ignore[no-any-return]
