"""PostgreSQL servers of a test's own, made as operators make a standby: by a base backup of one that runs."""

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import psycopg
from django.db import connection

from tests.support.kills import kill_with_children, wait_until
from workshop.localnet import postgres
from workshop.localnet.account import Account
from workshop.localnet.folder import open_folder

# The name by which a primary knows a standby.
STANDBY = "standby"
_SETTINGS = {
    "fsync": "on",
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "shared_buffers": "64MB",
    "timezone": "UTC",
    # A standby must allow as many as the server that it was copied from.
    "max_connections": "200",
    # How long a standby waits before it tries again to reach its primary; by itself, 5 s.
    "wal_retrieve_retry_interval": "100ms",
}


class Cluster:
    """One server. It follows the server that it was copied from until it is promoted."""

    def __init__(self, source: Path | None, settings: Mapping[str, str] | None = None) -> None:
        """Copy the server whose socket lies in the folder `source`; without one, somebody else fills `data`."""
        self.socket = Path(tempfile.mkdtemp(prefix="allowance-pg-"))
        self.data = self.socket / "data"
        self.account = Account.for_server(self.socket, postgres.binary("postgres"))
        self._settings = {**_SETTINGS, "unix_socket_directories": str(self.socket), **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._is_of_the_tests = source is not None
        if source:
            self._settings["primary_conninfo"] = f"host={source} user={postgres.USER} application_name={STANDBY}"
            self._copy(source)

    @classmethod
    def of_the_tests(cls) -> Self:
        """Copy the server of the tests, with all that they have committed; it goes its own way from there."""
        made = cls(postgres.socket_folder(open_folder()))
        try:
            made.start()
            made.promote()
        except BaseException:
            made.remove()
            raise
        return made

    def _copy(self, source: Path) -> None:
        backup = ["-h", str(source), "-U", postgres.USER, "-D", str(self.data), "--checkpoint=fast", "--no-sync"]
        command = self.account.command(postgres.binary("pg_basebackup"), *backup)
        subprocess.run(command, check=True, cwd="/", capture_output=True, timeout=120, **self.account.options)
        standby = self.data / "standby.signal"
        standby.touch()
        self.account.own(standby)

    def start(self) -> None:
        """Start it; returns when it answers."""
        options = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        command = self.account.command(postgres.binary("postgres"), "-D", self.data, *options)
        with (self.socket / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd="/", stdout=log, stderr=log, start_new_session=True, **self.account.options
            )
        wait_until(self._answers, f"PostgreSQL answers, see {self.socket / 'log'}")

    def promote(self) -> None:
        """Let it stop following and take writes, as a failover does."""
        # Without waiting there: what it still has to replay would cancel the statement that waits.
        assert self.execute("SELECT pg_promote(wait => false)") == [(True,)]
        wait_until(self.takes_writes, f"it is promoted, see {self.socket / 'log'}")

    def stop(self) -> None:
        """Stop it in order; no effect if it does not run."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(timeout=60)
            self._process = None

    def kill(self) -> None:
        """Kill it with -9, its children too."""
        assert self._process
        kill_with_children(self._process.pid, "PostgreSQL")
        self._process.wait(timeout=60)
        self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.socket)

    def connect(self, database: str = "") -> "psycopg.Connection[Any]":
        """Connect as the superuser to a database, by default to the copy of that of the tests, if it has one."""
        # What somebody else fills has none of the tests.
        name = database or (str(connection.settings_dict["NAME"]) if self._is_of_the_tests else postgres.DATABASE)
        return psycopg.connect(host=str(self.socket), user=postgres.USER, dbname=name, autocommit=True)

    def execute(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run one statement by itself and return its rows."""
        with self.connect() as session:
            cursor = session.execute(sql.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def url(self, database: str) -> str:
        """Return the DATABASE_URL of one of its databases."""
        return f"postgres://{postgres.USER}@{quote(str(self.socket), safe='')}/{database}"

    def change(self, name: str, value: str) -> None:
        """Change one of its settings while it runs."""
        self.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        self.execute("SELECT pg_reload_conf()")
        wait_until(lambda: self.execute(f"SHOW {name}") == [(value,)], f"{name} is {value}")

    def takes_writes(self) -> bool:
        """Tell whether it is a primary, and answers."""
        try:
            return self.execute("SELECT pg_is_in_recovery()") == [(False,)]
        except psycopg.OperationalError:
            return False

    def _answers(self) -> bool:
        assert self._process
        assert self._process.poll() is None, (self.socket / "log").read_text()
        try:
            self.connect("postgres").close()
        except psycopg.OperationalError:
            return False
        return True


def url_of(*clusters: Cluster, options: str = "") -> str:
    """Return the DATABASE_URL of some servers; libpq takes the first that answers and fits the options (`?…`)."""
    hosts = ",".join(quote(str(one.socket), safe="") for one in clusters)
    return f"postgres://{postgres.USER}@{hosts}/{connection.settings_dict['NAME']}{options}"
