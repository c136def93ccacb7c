"""PgBouncer in transaction mode, Debian's package, before the tests' own PostgreSQL."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection

from localnet import postgres
from localnet.account import Account
from localnet.folder import open_folder
from tests.support.kills import wait_until
from tests.support.servers import free_ports

_HOST = "127.0.0.1"
# As docs/operate/growing.md has it, but for the addresses, the logins and the size of the pool.
_CONFIGURATION = """
[databases]
* = host={socket} port={database_port} user={user}
[pgbouncer]
listen_addr = {host}
listen_port = {port}
unix_socket_dir =
auth_type = any
admin_users = {user}
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 500
query_wait_timeout = 20
# The next transaction gets another session whenever there is one: by itself, PgBouncer would often give the same again.
server_round_robin = 1
"""


@dataclass(frozen=True, slots=True)
class Pooler:
    """A PgBouncer that runs."""

    port: int

    @property
    def url(self) -> str:
        """Return the DATABASE_URL of the tests' database behind it."""
        return f"postgres://{postgres.USER}@{_HOST}:{self.port}/{connection.settings_dict['NAME']}"

    def connect(self) -> "psycopg.Connection[Any]":
        """Open a session of our own through it."""
        return psycopg.connect(self.url, autocommit=True, connect_timeout=5)

    def show(self, what: str) -> list[dict[str, Any]]:
        """Ask its console, as `psql pgbouncer` does."""
        url = f"postgres://{postgres.USER}@{_HOST}:{self.port}/pgbouncer"
        # The console speaks the simple protocol alone, and knows no transactions.
        with psycopg.ClientCursor(psycopg.connect(url, autocommit=True)) as cursor:
            cursor.row_factory = psycopg.rows.dict_row  # type: ignore[assignment]
            found: Any = cursor.execute(f"SHOW {what}".encode()).fetchall()
            cursor.connection.close()
        return list(found)


@contextmanager
def pooler(size: int) -> Iterator[Pooler]:
    """Run a PgBouncer that has at most `size` connections to the tests' database; without its program, skip.

    CI installs it, and fails without it.
    """
    program = shutil.which("pgbouncer", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))
    if program is None and "CI" not in os.environ:
        pytest.skip("PgBouncer is not installed (Debian: apt-get install pgbouncer)")
    assert program, ".ci/run installs PgBouncer"
    folder = Path(tempfile.mkdtemp(prefix="allowance-pgbouncer-"))
    account = Account.for_server(folder, Path(program))
    (port,) = free_ports(1)
    configuration = folder / "pgbouncer.ini"
    socket = postgres.socket_folder(open_folder())
    configuration.write_text(
        _CONFIGURATION.format(
            socket=socket, database_port=postgres.PORT, user=postgres.USER, host=_HOST, port=port, size=size
        )
    )
    account.own(configuration)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            account.command(program, configuration), cwd="/", stdout=log, stderr=log, **account.options
        )
    try:
        running = Pooler(port)
        wait_until(lambda: _answers(running, process, folder / "log"), "PgBouncer answers")
        yield running
    finally:
        process.kill()
        process.wait(timeout=30)
        shutil.rmtree(folder)


def _answers(running: Pooler, process: "subprocess.Popen[bytes]", log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    with suppress(psycopg.OperationalError), running.connect():
        return True
    return False
