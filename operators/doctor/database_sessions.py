"""Look at the connections to the database: how many there may be, TLS, a pooler in between, the replica, its disk."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connection, connections
from psycopg import Cursor

from foundation.environment.configuration import Configuration
from foundation.replica import ALIAS, MOST_BEHIND_S, read_replayed, read_written
from operators.doctor.diagnoses import Diagnosis, error, ok, skipped, warning
from operators.doctor.looking import ask_one, is_this_machine, quoted

# As docs/operate/growing.md counts them: the threads of a web process, and its batches of payments.
_OF_A_WEB_PROCESS = 21 + 4
_COMMANDS = 3
_LEAST_FREE = 0.1
_GROWING = "docs/operate/growing.md"
_VERIFIED = "verify-full"


def find_few_connections() -> Iterator[Diagnosis]:
    """Compare what one of each process opens with what the server and the role allow."""
    if _is_pooled():
        yield skipped("connections", "A pooler is in between, and shares the server's among all processes.")
        return
    most = ask_one(
        "SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int"
    )
    limit = ask_one("SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user")
    read = Configuration().read
    web, worker, webhooks = (read(f"{name}_CONCURRENCY") for name in ("WEB", "WORKER", "WEBHOOK"))
    needed = web * _OF_A_WEB_PROCESS + worker + webhooks + _COMMANDS
    allowed = most if limit < 0 else min(most, limit)
    if needed <= allowed:
        yield ok("connections", f"One web, worker and webhooks open up to {needed}; {allowed} are allowed.")
        return
    says = f"One web, worker and webhooks open up to {needed} connections; {allowed} are allowed. Under load: 503."
    role = quoted(ask_one("SELECT current_user"))
    cure = (
        f"ALTER ROLE {role} CONNECTION LIMIT {needed};"
        if allowed == limit
        else f"ALTER SYSTEM SET max_connections = {needed + 10}; and restart it"
    )
    yield warning("connections", says, f"SQL: {cure}, or a pooler: {_GROWING}#a-pooler")


def _is_pooled() -> bool:
    """Tell whether somebody else answers for the server: then the session has another number there than here."""
    number: int = ask_one("SELECT pg_backend_pid()")
    return connection.connection is not None and number != connection.connection.info.backend_pid


def find_forgetful_pooler() -> Iterator[Diagnosis]:
    """See that prepared statements survive a pooler in transaction mode."""
    if not _is_pooled():
        yield ok("pooler", "There is none.")
    elif not settings.PREPARED_STATEMENTS:
        yield ok("pooler", "There is one, and PREPARED_STATEMENTS is false.")
    elif _keeps_statements():
        yield ok("pooler", "There is one, which keeps track of prepared statements.")
    else:
        says = "It keeps no track of prepared statements: in transaction mode payments get 503 now and then."
        mend = f"Set PREPARED_STATEMENTS=false, or in PgBouncer 1.22 max_prepared_statements = 200: {_GROWING}#a-pooler"
        yield (error if _shares_sessions() else warning)("pooler", says, mend)


def _keeps_statements() -> bool:
    """Prepare a statement: a pooler that keeps track of it gives it a name of its own at the server."""
    with _second_session() as session, session.transaction(), Cursor(session) as cursor:
        cursor.execute("SELECT 1", prepare=True)
        cursor.execute("SELECT name FROM pg_prepared_statements WHERE statement = 'SELECT 1'")
        ours = [name for (name,) in cursor.fetchall() if name.startswith("_pg3_")]
        for name in ours:  # it would be in the way of whoever gets this session next
            cursor.execute(f"DEALLOCATE {quoted(name)}".encode())
    return ours == []


def _shares_sessions() -> bool:
    """Tell whether two clients that are both connected get the same session of the server: transaction mode."""
    with _second_session() as one, _second_session() as other:
        numbers = [session.execute("SELECT pg_backend_pid()").fetchone() for session in (one, other)]
    return bool(numbers[0] == numbers[1])


@contextmanager
def _second_session() -> Iterator[Any]:
    made = connection.copy()
    try:
        made.ensure_connection()
        yield made.connection
    finally:
        made.close()


def find_open_connection() -> Iterator[Diagnosis]:
    """See that the way to the database is encrypted and the server proved who it is, unless it is on this machine."""
    for alias in settings.DATABASES:
        yield _tls(alias, "DATABASE_URL" if alias == DEFAULT_DB_ALIAS else "DATABASE_REPLICA_URL")


def _tls(alias: str, variable: str) -> Diagnosis:
    session: Any = connections[alias]
    session.ensure_connection()
    hosts = str(session.settings_dict.get("HOST", "")).split(",")
    mode = session.settings_dict.get("OPTIONS", {}).get("sslmode", os.environ.get("PGSSLMODE", "prefer"))
    if all(map(is_this_machine, hosts)):
        return ok(variable, "The server is on this machine.")
    mend = f"Put ?sslmode={_VERIFIED}&sslrootcert=system behind {variable}, or the file of your own authority"
    if not session.connection.pgconn.ssl_in_use:
        return error(variable, "No TLS on the way through the network: passwords and the log can be read.", mend)
    if mode != _VERIFIED:
        return warning(variable, f"sslmode is {mode}: whoever sits between can pose as the server.", mend)
    return ok(variable, "TLS, and the server's name is verified.")


def find_full_disk() -> Iterator[Diagnosis]:
    """Tell how much room the database has, where that can be known from here."""
    folder = Path(_data_folder() or "/nowhere")
    try:
        disk = shutil.disk_usage(folder)
    except OSError:
        yield skipped("disk", "The server's disk cannot be seen from here: let its own monitoring watch it.")
        return
    size = ask_one("SELECT pg_size_pretty(pg_database_size(current_database()))")
    says = f"{disk.free / 1e9:.1f} GB are free ({disk.free / disk.total:.0%}); the database has {size}."
    if disk.free / disk.total < _LEAST_FREE:
        yield warning("disk", says, "Enlarge the disk of the database before it is full: the log is never deleted.")
    else:
        yield ok("disk", says)


def _data_folder() -> str | None:
    may_know = ask_one("SELECT pg_has_role(current_user, 'pg_read_all_settings', 'USAGE')")
    return (
        ask_one("SHOW data_directory") if may_know and is_this_machine(str(connection.settings_dict["HOST"])) else None
    )


def find_useless_replica() -> Iterator[Diagnosis]:
    """See that the replica is one of this primary's, and at most some seconds behind."""
    if ALIAS not in settings.DATABASES:
        yield ok("replica", "None is configured.")
        return
    try:
        behind = _bytes_behind()
    except DatabaseError as trouble:
        says = f"It does not answer: {type(trouble).__name__}. All reads go to the primary."
        yield error("replica", says, "Start it, or correct DATABASE_REPLICA_URL")
        return
    if behind is None:
        mend = "Name a streaming standby of the primary in DATABASE_REPLICA_URL, or remove it"
        yield error("replica", "It is no standby of the primary: nothing is read there.", mend)
    elif behind > 0:
        says = f"It is more than {MOST_BEHIND_S} s behind, by {behind:.0f} bytes: all reads go to the primary."
        yield warning(
            "replica", says, "SELECT * FROM pg_stat_replication on the primary; look at its disk and processors"
        )
    else:
        yield ok("replica", f"It follows the primary, within {MOST_BEHIND_S} s.")


def _bytes_behind() -> Decimal | None:
    """Wait until the replica has what the primary has now; returns what it still lacks. None: it is no standby."""
    written, origin = read_written()
    deadline = time.monotonic() + MOST_BEHIND_S
    while True:
        replayed, copied_from = read_replayed()
        if replayed is None or copied_from != origin:
            return None
        if replayed >= written or time.monotonic() > deadline:
            return Decimal(written - replayed)
        time.sleep(0.1)
