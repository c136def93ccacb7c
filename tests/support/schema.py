"""How the tables of a database are made."""

from typing import Any

_SCHEMA = """
SELECT 'column', table_name::text, column_name::text,
       concat_ws(' ', data_type, character_maximum_length, is_nullable, column_default)
  FROM information_schema.columns WHERE table_schema = current_schema()
UNION ALL
SELECT 'index', tablename::text, indexname::text, concat_ws(' ', indexdef, indisvalid)
  FROM pg_indexes JOIN pg_index ON indexrelid = format('%I.%I', schemaname, indexname)::regclass
 WHERE schemaname = current_schema()
UNION ALL
SELECT 'constraint', conrelid::regclass::text, conname::text, concat_ws(' ', pg_get_constraintdef(oid), convalidated)
  FROM pg_constraint WHERE connamespace = current_schema()::regnamespace
ORDER BY 1, 2, 3
"""


def read_schema(cursor: Any) -> list[list[str]]:
    """List columns, indexes and constraints: of which kind and table, its name, how it is defined."""
    cursor.execute(_SCHEMA)
    return [list(row) for row in cursor.fetchall()]
