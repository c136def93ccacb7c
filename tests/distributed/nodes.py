"""The servers of the cluster: kill one as a power cut would, cut one off, start it again."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.support.kills import wait_until

_BIN = Path("/usr/lib/postgresql/15/bin")


class Nodes:
    """The coordinator and the workers, by their names in `CITUS_FOLDER`."""

    def __init__(self) -> None:
        self._folder = Path(os.environ["CITUS_FOLDER"])

    def port(self, name: str) -> int:
        return int((self._folder / name / "postmaster.pid").read_text().splitlines()[3])

    def connect(self, name: str) -> "psycopg.Connection[tuple[object, ...]]":
        """Connect to a server past the product."""
        database = os.environ["CITUS_DATABASE_URL"].rpartition("/")[2]
        address = f"postgres://postgres@127.0.0.1:{self.port(name)}/{database}"
        return psycopg.connect(address, autocommit=True)

    def kill(self, name: str) -> None:
        """Kill a server with -9, and all sessions with it."""
        pid = int((self._folder / name / "postmaster.pid").read_text().split()[0])
        children = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split()
        for one in (pid, *map(int, children)):
            os.kill(one, signal.SIGKILL)

    def start(self, name: str) -> None:
        """Start a server that was killed, and wait until it answers."""
        self._pg_ctl(name, "-w", "-l", str(self._folder / f"{name}.log"), "start")
        wait_until(lambda: self._answers(name), f"{name} answers")

    def restart(self, name: str) -> None:
        self._pg_ctl(name, "-w", "-m", "fast", "-l", str(self._folder / f"{name}.log"), "restart")

    @contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """Let a server answer nobody in this block, as if the network to it were cut."""
        pid = int((self._folder / name / "postmaster.pid").read_text().split()[0])
        children = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split()
        family = (pid, *map(int, children))
        for one in family:
            os.kill(one, signal.SIGSTOP)
        try:
            yield
        finally:
            for one in family:
                os.kill(one, signal.SIGCONT)

    def _answers(self, name: str) -> bool:
        try:
            self.connect(name).close()
        except psycopg.OperationalError:
            return False
        return True

    def _pg_ctl(self, name: str, *arguments: str) -> None:
        as_postgres = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
        command = [*as_postgres, str(_BIN / "pg_ctl"), "-D", str(self._folder / name), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/")
