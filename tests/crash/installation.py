"""The servers below the product, which can be killed and started again; everything lies in one temporary folder."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import psycopg

from tests.support import kills
from workshop.embedded import ensure_evm, ensure_solana
from workshop.localnet import evm_server, postgres, redis_server, solana_server
from workshop.localnet.folder import Folder, locked, open_folder

# Where escrows were not searched for half a minute, what expired on Solana waits for 300 more blocks: 130 s. On two
# processors that others use, too, that can happen twice in a row.
PATIENCE_S = 400
_SERVERS: dict[str, ModuleType] = {"database": postgres, "broker": redis_server}
_ENSURE = {
    postgres: postgres.ensure,
    redis_server: redis_server.ensure,
    evm_server: ensure_evm,
    solana_server: ensure_solana,
}


def wait_until(condition: Callable[[], Any], what: str) -> Any:
    """Wait as long as anything here may take.

    Raises:
        TimeoutError: it did not become true; names what.
    """
    return kills.wait_until(condition, what, PATIENCE_S)


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
        kills.kill_with_children(pid, name)
        wait_until(lambda: not daemon.is_running() and kills.is_gone(pid), f"the {name} is gone")

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
