"""Read the database without a chance to change it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections

from foundation.database import brief_read


@contextmanager
def reading(alias: str = DEFAULT_DB_ALIAS) -> Iterator[None]:
    """Read within 5 s, in a transaction in which the database refuses to write."""
    with brief_read(alias), connections[alias].cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        yield


def ask(statement: str, *parameters: Any, alias: str = DEFAULT_DB_ALIAS) -> list[tuple[Any, ...]]:
    """Run a statement and return its rows."""
    with connections[alias].cursor() as cursor:
        cursor.execute(statement, parameters or None)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def ask_one(statement: str, *parameters: Any, alias: str = DEFAULT_DB_ALIAS) -> Any:
    """Run a statement and return the only value that it answers."""
    return ask(statement, *parameters, alias=alias)[0][0]


def quoted(name: str) -> str:
    """Write a name as SQL does, for a mend that can be pasted."""
    return '"' + name.replace('"', '""') + '"'


def is_this_machine(host: str) -> bool:
    """Tell whether an address of a server is on this machine by its own words: a socket, or the loopback."""
    return host == "localhost" or host.startswith(("/", "127.", "@")) or host in ("", "::1")
