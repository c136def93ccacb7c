"""Install functions and triggers from SQL files: `migrate` does so each time, so that they equal the files.

Each file may be run again and again (`CREATE OR REPLACE`). A function whose parameters or columns change gets another
name: while a deployment rolls, processes of the version before still call the old one.
"""

from pathlib import Path
from typing import Any

from django.db import connections, transaction

# On a cluster `distribute` brings them to the other servers, once all of them are here. Nothing where there is none.
_HERE = "SET LOCAL citus.enable_ddl_propagation = off"


def install_sql(files: tuple[Path, ...], tables: tuple[str, ...], using: str) -> None:
    """Run SQL files, unless a table that they need is missing: then an app is being migrated back."""
    connection: Any = connections[using]
    if set(tables) <= set(connection.introspection.table_names()):
        for file in files:
            # Each by itself: what triggers lock is locked for no longer than one file takes.
            with transaction.atomic(using), connection.cursor() as cursor:
                cursor.execute(_HERE)
                cursor.execute(file.read_text())
