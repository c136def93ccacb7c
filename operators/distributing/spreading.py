"""Turn the tables of one PostgreSQL into those of a cluster, in one transaction: all of it is done, or nothing."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from django.db import connection, transaction

from foundation.database import fetch_rows
from foundation.kernel.errors import OperationRefused
from operators.distributing.places import COPIED, OF_GROUPS, ON_EVERY_NODE

MOST_GROUPS = 1024
_SQL = Path(__file__).parent
# A foreign key's columns, and those that it refers to, are the first two lists; a key's are the first.
_COLUMNS = re.compile(r"\(([^()]*)\)")
_CONSTRAINTS = """
    SELECT conrelid::regclass::text, contype::text, conname, COALESCE(NULLIF(confrelid, 0)::regclass::text, ''),
           pg_get_constraintdef(oid)
      FROM pg_constraint
     WHERE connamespace = 'public'::regnamespace AND contype IN ('p', 'u', 'f')
       AND (conrelid::regclass::text = ANY (%(tables)s) OR confrelid::regclass::text = ANY (%(tables)s))
     ORDER BY conname
"""
_UNIQUE_INDEXES = """
    SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index
     WHERE indisunique AND indrelid::regclass::text = ANY (%(tables)s)
       AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)
"""
_TRIGGERS = """
    SELECT tgrelid::regclass::text, tgname, pg_get_triggerdef(oid) FROM pg_trigger
     WHERE NOT tgisinternal AND tgrelid::regclass::text = ANY (%(tables)s) ORDER BY tgname
"""
_LOCAL = """
    SELECT c.oid::regclass::text FROM pg_class c
     WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
       AND NOT EXISTS (SELECT FROM pg_dist_partition p WHERE p.logicalrelid = c.oid)
       AND c.relname <> ALL (%(copied)s) ORDER BY 1
"""
_COPY_OF = "distributed_copy_of_"
_SPREAD = "SELECT create_distributed_table(%s, 'agent_group', colocate_with => %s)"
_COUNTED = """
    SELECT c.oid::regclass::text, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
      JOIN pg_dist_partition p ON p.logicalrelid = c.oid AND p.partmethod = 'n'
     WHERE a.attidentity <> '' AND NOT a.attisdropped AND c.relnamespace = 'public'::regnamespace
"""
_OPEN = "SELECT count(*) FROM payments_settlement WHERE state IN ('signed', 'broadcast', 'included')"


@dataclass(frozen=True, slots=True)
class _Key:
    """A primary or unique key, or a reference to one (`target`), as the catalogue has it."""

    table: str
    kind: str
    name: str
    target: str
    definition: str

    @property
    def is_reference(self) -> bool:
        return self.kind == "f"

    def is_kept(self) -> bool:
        """Tell whether a cluster can check it: a reference leads within a group, or to what is on every node."""
        if not self.is_reference or self.target in ON_EVERY_NODE:
            return self.table in OF_GROUPS or self.table in ON_EVERY_NODE
        return (self.table in OF_GROUPS) == (self.target in OF_GROUPS)

    def with_group(self) -> str:
        """Write its definition with the group beside its columns, wherever these are of groups."""
        lists = 2 if self.is_reference and self.target in OF_GROUPS else 1
        if self.table not in OF_GROUPS or (self.is_reference and self.target not in OF_GROUPS):
            return self.definition
        return _COLUMNS.sub(r"(\1, agent_group)", self.definition, count=lists)


def spread(groups: int, tell: Callable[[str], None]) -> None:
    """Spread a database that is on one server over the nodes of its cluster, by so many groups of agents.

    Raises:
        OperationRefused: transactions are on their way, which may pay for agents of several groups.
    """
    with transaction.atomic():
        if open_count := fetch_rows(_OPEN, {})[0][0]:
            raise OperationRefused(
                f"{open_count} transactions are on their way: stop web, and let worker run until there is none."
            )
        for setting in ("citus.enable_unsafe_triggers = on", "citus.multi_shard_modify_mode = 'sequential'"):
            _run(f"SET LOCAL {setting}")
        _run(f"SET LOCAL citus.shard_count = {groups:d}")
        _run((_SQL / "tables.sql").read_text().replace("%(groups)s", str(groups)))
        keys, indexes = _take_away_keys()
        triggers = _take_away_triggers()
        tell("Finding the group of each row")
        _find_groups()
        _put_back(keys, indexes)
        _place_tables(tell)
        for key in keys:
            if key.is_reference and key.is_kept():
                # Checked at once: Citus does not hold a check back.
                definition = key.with_group().replace(" DEFERRABLE INITIALLY DEFERRED", "")
                _run(f'ALTER TABLE {key.table} ADD CONSTRAINT "{key.name}" {definition}')
        for definition in triggers:
            _run(definition)


def _place_tables(tell: Callable[[str], None]) -> None:
    """Put each table where it belongs; workers find those of the coordinator, too."""
    for table in (*ON_EVERY_NODE, "distributed_group", "distributed_agent", "distributed_lock"):
        tell(f"Copying {table} to every node")
        _run("SELECT create_reference_table(%s)", table)
    for table in OF_GROUPS:
        tell(f"Spreading {table}")
        beside = "none" if table == OF_GROUPS[0] else OF_GROUPS[0]
        _run(_SPREAD, table, beside)
    _run(_SPREAD, "distributed_together", OF_GROUPS[0])
    for table, key in COPIED.items():
        tell(f"Copying {table} to every group")
        _run("SELECT pg_temp.make_copy(%s, %s, %s)", f"{_COPY_OF}{table}", table, key)
        _run(_SPREAD, f"{_COPY_OF}{table}", OF_GROUPS[0])
    for (table,) in fetch_rows(_LOCAL, {"copied": list(COPIED)}):
        _run("SELECT citus_add_local_table_to_metadata(%s, cascade_via_foreign_keys => true)", table)
    # A table that Citus makes known has a new sequence.
    for table, column in fetch_rows(_COUNTED, {}):
        _run("SELECT pg_temp.count_on(%s, %s)", table, column)


def _find_groups() -> None:
    """Write down of each row which group it is of."""
    for table in OF_GROUPS:
        _run(f"ALTER TABLE {table} ADD COLUMN agent_group int")
    _run((_SQL / "rows.sql").read_text())
    for table in OF_GROUPS:
        _run(f"ALTER TABLE {table} ALTER COLUMN agent_group SET NOT NULL")


def _take_away_keys() -> tuple[list[_Key], list[tuple[str, str]]]:
    """Remove the keys that have to have the group in them, and the references to them; returns what they were."""
    keys = [_Key(*row) for row in fetch_rows(_CONSTRAINTS, {"tables": [*OF_GROUPS, *ON_EVERY_NODE]})]
    indexes = fetch_rows(_UNIQUE_INDEXES, {"tables": list(OF_GROUPS)})
    for key in sorted(keys, key=lambda one: not one.is_reference):
        if key.is_reference or key.table in OF_GROUPS:
            _run(f'ALTER TABLE {key.table} DROP CONSTRAINT "{key.name}"')
    for name, _ in indexes:
        _run(f"DROP INDEX {name}")
    return keys, [(name, definition) for name, definition in indexes]


def _take_away_triggers() -> list[str]:
    """Remove what acts on rows that are written, and keeps them as they are: copying them is neither."""
    found = fetch_rows(_TRIGGERS, {"tables": [*OF_GROUPS, *ON_EVERY_NODE]})
    for table, name, _ in found:
        _run(f'DROP TRIGGER "{name}" ON {table}')
    return [definition for _, _, definition in found]


def _put_back(keys: Sequence[_Key], indexes: Sequence[tuple[str, str]]) -> None:
    """Make the keys again, with the group; references follow once all tables are where they belong."""
    for key in keys:
        if not key.is_reference and key.table in OF_GROUPS:
            _run(f'ALTER TABLE {key.table} ADD CONSTRAINT "{key.name}" {key.with_group()}')
    for _, definition in indexes:
        _run(_COLUMNS.sub(r"(\1, agent_group)", definition, count=1))


def _run(statement: str, *parameters: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)
