"""The servers of the cluster: kill one as a power cut would, cut one off, start it again."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.support.kills import wait_until

_SIDES = ("--dport", "--sport")
_BIN = Path("/usr/lib/postgresql/15/bin")


def _runs(pid: int) -> bool:
    """Tell whether a process runs; one whose end nobody has taken note of does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


class Nodes:
    """The coordinator and the workers, by their names in `CITUS_FOLDER`."""

    def __init__(self) -> None:
        self._folder = Path(os.environ["CITUS_FOLDER"])
        self._ports: dict[str, int] = {}

    def port(self, name: str) -> int:
        if name not in self._ports:
            self._ports[name] = int((self._folder / name / "postmaster.pid").read_text().splitlines()[3])
        return self._ports[name]

    def connect(self, name: str) -> "psycopg.Connection[tuple[object, ...]]":
        """Connect to a server past the product."""
        database = os.environ["CITUS_DATABASE_URL"].rpartition("/")[2]
        address = f"postgres://postgres@127.0.0.1:{self.port(name)}/{database}"
        return psycopg.connect(address, autocommit=True)

    def kill(self, name: str) -> None:
        """Kill a server with -9, and all sessions with it."""
        self.port(name)
        family = self._family(name)
        for one in family:
            os.kill(one, signal.SIGKILL)
        wait_until(lambda: not any(map(_runs, family)), f"{name} has ended")
        # Nobody may have taken note of its end yet: PostgreSQL would believe that it still runs.
        (self._folder / name / "postmaster.pid").unlink()
        (self._folder / f".s.PGSQL.{self.port(name)}.lock").unlink(missing_ok=True)

    def start(self, name: str) -> None:
        """Start a server that was killed, and wait until it answers."""
        self._pg_ctl(name, "-w", "-l", str(self._folder / f"{name}.log"), "start")
        wait_until(lambda: self._answers(name), f"{name} answers")

    def restart(self, name: str) -> None:
        self._pg_ctl(name, "-w", "-m", "fast", "-l", str(self._folder / f"{name}.log"), "restart")

    @contextmanager
    def cut_off(self, name: str) -> Iterator[None]:
        """Cut the network to a server in this block: nothing comes through, in neither direction. As root."""
        rules = [["INPUT", "-i", "lo", "-p", "tcp", side, str(self.port(name)), "-j", "DROP"] for side in _SIDES]
        for rule in rules:
            subprocess.run(["iptables", "-I", *rule], check=True)
        try:
            yield
        finally:
            for rule in rules:
                subprocess.run(["iptables", "-D", *rule], check=True)

    def _family(self, name: str) -> list[int]:
        pid = (self._folder / name / "postmaster.pid").read_text().split()[0]
        children = subprocess.run(["pgrep", "-P", pid], capture_output=True, text=True, check=False).stdout.split()
        return [int(pid), *map(int, children)]

    def _answers(self, name: str) -> bool:
        try:
            self.connect(name).close()
        except psycopg.OperationalError:
            return False
        return True

    def _pg_ctl(self, name: str, *arguments: str) -> None:
        as_postgres = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
        command = [*as_postgres, str(_BIN / "pg_ctl"), "-D", str(self._folder / name), *arguments]
        done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, cwd="/")
        assert done.returncode == 0, (self._folder / f"{name}.log").read_text()[-3000:]
