"""The servers below the product, which can be killed and started again; everything lies in one temporary folder."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg

from allowance.embedded import ensure_evm, ensure_solana
from localnet import evm_server, postgres, redis_server, solana_server
from localnet.folder import Folder, locked, open_folder

# Where escrows were not searched for half a minute, what expired on Solana waits for 300 more blocks: 130 s. On two
# processors that others use, too, that can happen twice in a row.
PATIENCE_S = 400
_POLL_S = 0.02
_SERVERS: dict[str, ModuleType] = {"database": postgres, "broker": redis_server}
_ENSURE = {
    postgres: postgres.ensure,
    redis_server: redis_server.ensure,
    evm_server: ensure_evm,
    solana_server: ensure_solana,
}


def wait_until(condition: Callable[[], Any], what: str) -> Any:
    """Wait for something to be true and return it.

    Raises:
        TimeoutError: it did not become true; names what.
    """
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"Waited {PATIENCE_S} s in vain: {what}.")
        time.sleep(_POLL_S)
    return found


class Installation:
    """PostgreSQL, Redis and the nodes of this run, by name."""

    def __init__(self, nodes: Mapping[str, ModuleType]) -> None:
        self.folder: Folder = open_folder()
        self._servers = {**_SERVERS, **nodes}

    def url(self, name: str) -> str:
        return str(self._servers[name].url(self.folder))

    def kill(self, name: str) -> None:
        """Kill a server with -9, its children too, and return when all of them are gone."""
        daemon = self._servers[name].daemon(self.folder)
        pid = wait_until(daemon.pid, f"the {name} runs")
        # First it is stopped where it stands: a child that it had meanwhile would be overlooked, and outlive it.
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: _read_stat(pid)[:1] in (["T"], []), f"the {name} stands still")
        victims = (pid, *_children(pid))
        for one in victims:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        # Buried, too: a PostgreSQL takes the pid of one that is dead and not buried for a living one.
        wait_until(lambda: not daemon.is_running() and not any(map(_exists, victims)), f"the {name} is gone")

    def start(self, name: str) -> None:
        """Start a server that was killed, at its old address."""
        server = self._servers[name]
        before = server.url(self.folder)
        with locked(self.folder.path / "start.lock"):
            _ENSURE[server](self.folder, lambda _: None)
        if server.url(self.folder) != before:
            raise RuntimeError(f"Somebody else took the port of the {name}: nothing here is to blame, run it again.")

    @contextmanager
    def session(self) -> Iterator["psycopg.Connection[Any]"]:
        """Open a session of our own, outside of Django, in a transaction that is rolled back."""
        with postgres.connect(self.folder) as connection:
            connection.execute("SET lock_timeout = '20s'")
            connection.autocommit = False
            try:
                yield connection
            finally:
                connection.rollback()

    def execute(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run one statement by itself and return its rows."""
        with postgres.connect(self.folder) as connection:
            cursor = connection.execute(sql.encode(), values)
            return cursor.fetchall() if cursor.description else []


def _children(pid: int) -> list[int]:
    if not Path("/proc/self/stat").exists():
        return []
    everybody = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return [one for one in everybody if _read_stat(one)[1:2] == [str(pid)]]


def _read_stat(pid: int) -> list[str]:
    """Read what Linux tells of a process behind its name: its state, its parent and so on; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
