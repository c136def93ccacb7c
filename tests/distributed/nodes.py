"""The servers of the cluster: kill one as a power cut would, cut one off, start it again."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql

from tests.support.kills import wait_until
from tests.support.ports import free_ports

_SIDES = ("--dport", "--sport")
_BIN = Path("/usr/lib/postgresql/15/bin")


def _runs(pid: int) -> bool:
    """Tell whether a process runs; one whose end nobody has taken note of does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def as_postgres(program: str, *arguments: str) -> list[str]:
    """Return the command that runs a program of PostgreSQL as its user."""
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
    return [*user, str(_BIN / program), *arguments]


class Nodes:
    """The coordinator and the workers, by their names in `CITUS_FOLDER`."""

    def __init__(self) -> None:
        self._folder = Path(os.environ["CITUS_FOLDER"])
        self._ports: dict[str, int] = {}
        self._added: list[str] = []

    def port(self, name: str) -> int:
        if name not in self._ports:
            self._ports[name] = int((self.data(name) / "postmaster.pid").read_text().splitlines()[3])
        return self._ports[name]

    def names(self) -> list[str]:
        """Name those that the cluster has, the coordinator first."""
        with self.connect("coordinator") as coordinator:
            found = coordinator.execute("SELECT nodeport FROM pg_dist_node WHERE isactive ORDER BY groupid").fetchall()
        names = {self.port(path.parent.name): path.parent.name for path in self._folder.glob("*/postmaster.pid")}
        return [names[port] for (port,) in found if isinstance(port, int)]

    def new_folder(self, name: str) -> Path:
        """Make a folder that PostgreSQL's user owns, beside the servers' own."""
        (self._folder / name).mkdir()
        shutil.chown(self._folder / name, "postgres")
        return self._folder / name

    def data(self, name: str) -> Path:
        return self._folder / name

    def address(self, name: str) -> list[str]:
        """Say where a server is, as options of PostgreSQL's programs."""
        return ["-h", "127.0.0.1", "-p", str(self.port(name)), "-U", "postgres"]

    def connect(self, name: str) -> "psycopg.Connection[tuple[object, ...]]":
        """Connect to a server past the product."""
        database = os.environ["CITUS_DATABASE_URL"].rpartition("/")[2]
        address = f"postgres://postgres@127.0.0.1:{self.port(name)}/{database}"
        return psycopg.connect(address, autocommit=True)

    def add(self, name: str) -> None:
        """Make a server as the others are, and add it to the cluster, without any group."""
        data, database = self.data(name), os.environ["CITUS_DATABASE_URL"].rpartition("/")[2]
        self.run(
            "initdb", "-D", str(data), "-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8"
        )
        ((port,), known) = free_ports(1), self.port("worker1")
        settings = (self.data("worker1") / "postgresql.conf").read_text().replace(f"port = {known}", f"port = {port}")
        (data / "postgresql.conf").write_text(settings)
        self._added.append(name)
        self._pg_ctl(name, "-w", "-l", str(self._folder / f"{name}.log"), "start")
        with psycopg.connect(f"postgres://postgres@127.0.0.1:{port}/postgres", autocommit=True) as own:
            own.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
        with self.connect(name) as own:
            own.execute("CREATE EXTENSION citus")
        with self.connect("coordinator") as coordinator:
            coordinator.execute("SELECT citus_add_node('127.0.0.1', %s)", [port])

    def follow(self, name: str, standby: str) -> None:
        """Make a standby of a server, without which it commits nothing from now on."""
        data, port = self.data(standby), free_ports(1)[0]
        self.run("pg_basebackup", *self.address(name), "-D", str(data), "-R", "--checkpoint=fast")
        with (data / "postgresql.conf").open("a") as settings:
            settings.write(f"port = {port}\n")
        self._added.append(standby)
        self._pg_ctl(standby, "-w", "-l", str(self._folder / f"{standby}.log"), "start")
        with self.connect(name) as own:
            own.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            own.execute("SELECT pg_reload_conf()")

    def promote(self, standby: str, *, in_place_of: str) -> None:
        """Let a standby take the place of a server that is lost, in the cluster, too."""
        self._pg_ctl(standby, "-w", "promote")
        with self.connect(standby) as own:
            own.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
            own.execute("SELECT pg_reload_conf()")
        with self.connect("coordinator") as coordinator:
            coordinator.execute(
                "SELECT citus_update_node(nodeid, nodename, %s) FROM pg_dist_node WHERE nodeport = %s",
                [self.port(standby), self.port(in_place_of)],
            )

    def close(self) -> None:
        """Stop what was added."""
        for name in self._added:
            self._pg_ctl(name, "-m", "immediate", "stop")

    def kill(self, name: str) -> None:
        """Kill a server with -9, and all sessions with it."""
        self.port(name)
        family = self._family(name)
        for one in family:
            os.kill(one, signal.SIGKILL)
        wait_until(lambda: not any(map(_runs, family)), f"{name} has ended")
        # Nobody may have taken note of its end yet: PostgreSQL would believe that it still runs.
        (self.data(name) / "postmaster.pid").unlink()
        (self._folder / f".s.PGSQL.{self.port(name)}.lock").unlink(missing_ok=True)

    def start(self, name: str) -> None:
        """Start a server that was killed, and wait until it answers."""
        self._pg_ctl(name, "-w", "-l", str(self._folder / f"{name}.log"), "start")
        wait_until(lambda: self._answers(name), f"{name} answers")

    def restart(self, name: str) -> None:
        self._pg_ctl(name, "-w", "-m", "fast", "-l", str(self._folder / f"{name}.log"), "restart")

    @contextmanager
    def lost(self, name: str) -> Iterator[None]:
        """Kill a server, and start it again when this block ends."""
        self.kill(name)
        try:
            yield
        finally:
            self.start(name)

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
        pid = (self.data(name) / "postmaster.pid").read_text().split()[0]
        children = subprocess.run(["pgrep", "-P", pid], capture_output=True, text=True, check=False).stdout.split()
        return [int(pid), *map(int, children)]

    def _answers(self, name: str) -> bool:
        try:
            self.connect(name).close()
        except psycopg.OperationalError:
            return False
        return True

    def _pg_ctl(self, name: str, *arguments: str) -> None:
        self.run("pg_ctl", "-D", str(self.data(name)), *arguments)

    def run(self, program: str, *arguments: str) -> None:
        """Run a program of PostgreSQL to its end."""
        command = as_postgres(program, *arguments)
        done = subprocess.run(command, check=False, capture_output=program != "pg_ctl", cwd="/")
        assert done.returncode == 0, (command, done.stderr)
