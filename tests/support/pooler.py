"""PgBouncer in transaction mode, Debian's package, before the tests' own PostgreSQL."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection

from tests.documents.pages import blocks_of
from tests.support.kills import wait_until
from tests.support.ports import free_ports
from workshop.localnet import postgres
from workshop.localnet.account import Account
from workshop.localnet.folder import open_folder

_HOST = "127.0.0.1"
_PAGE = "docs/operate/growing.md"
# In it, what operators of an older PgBouncer leave out.
_SINCE_1_21 = "max_prepared_statements"


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
    # Where PostgreSQL has its socket: who can reach the one can reach the other.
    folder = Path(tempfile.mkdtemp(prefix="pgbouncer-", dir=open_folder().path))
    account = Account.for_server(folder, Path(program))
    (port,) = free_ports(1)
    configuration = folder / "pgbouncer.ini"
    with configuration.open("w") as file:
        _configuration(port, size).write(file)
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


def _configuration(port: int, size: int) -> ConfigParser:
    """Take what the page for operators has, with the addresses and logins of the tests."""
    (block,) = (one.text for one in blocks_of(_PAGE) if "[pgbouncer]" in one.text)
    found = ConfigParser()
    found.read_string(block)
    host = postgres.socket_folder(open_folder())
    found["databases"] = {"*": f"host={host} port={postgres.PORT} user={postgres.USER}"}
    del found["pgbouncer"][_SINCE_1_21]
    found["pgbouncer"].update(
        listen_addr=_HOST,
        listen_port=str(port),
        unix_socket_dir="",
        auth_type="any",
        admin_users=postgres.USER,
        default_pool_size=str(size),
        # The next transaction gets another session whenever there is one: by itself, it would often get the same again.
        server_round_robin="1",
    )
    return found
