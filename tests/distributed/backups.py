"""Backups of each server of the cluster, and their restore up to one moment."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.distributed.nodes import Nodes, as_postgres
from tests.support.kills import wait_until
from tests.support.runbook import blocks, run

BACKUPS, GROWING = "docs/operate/restored-backup.md", "docs/operate/growing.md"


@contextmanager
def archived(nodes: Nodes) -> Iterator[None]:
    """Keep in this block what each server writes into its WAL, in a folder for each."""
    receivers = []
    try:
        for name in nodes.names():
            archive = nodes.new_folder(f"{name}-archive")
            command = as_postgres("pg_receivewal", *nodes.address(name), "-D", str(archive), "--no-loop")
            receivers.append(subprocess.Popen(command, cwd="/"))
        archives = [nodes.data(f"{name}-archive") for name in nodes.names()]
        wait_until(lambda: all([*archive.iterdir()] for archive in archives), "all WAL is received")
        yield
    finally:
        for receiver in receivers:
            receiver.terminate()
            receiver.wait(30)


def back_up(nodes: Nodes) -> None:
    """Make a base backup of each server, one after the other, while they are used."""
    for name in nodes.names():
        nodes.run("pg_basebackup", *nodes.address(name), "-D", str(nodes.data(f"{name}-backup")), "--checkpoint=fast")


def lose_and_restore(nodes: Nodes, moment: str) -> None:
    """Lose all servers with their disks, and restore their backups up to a moment, as the pages say."""
    names = nodes.names()
    for name in names:
        nodes.kill(name)
        shutil.rmtree(nodes.data(name))
    for name in names:
        variables = {
            "BACKUP": str(nodes.data(f"{name}-backup")), "ARCHIVE": str(nodes.data(f"{name}-archive")),
            "DATA": str(nodes.data(name)), "NAME": moment,
        }  # fmt: skip
        _run(BACKUPS, "recovery.signal", variables)
        _run(GROWING, 'echo "recovery_target_name', variables)
    for name in reversed(names):  # the coordinator last
        subprocess.run(["chown", "-R", "postgres:postgres", str(nodes.data(name))], check=True)
        nodes.start(name)
        wait_until(lambda: _takes_writes(nodes, name), f"{name} takes writes")  # noqa: B023
        server = f"host=127.0.0.1 port={nodes.port(name)} user=postgres dbname=postgres"
        _run(GROWING, "RESET recovery_target_name", {"SERVER": server})


def _run(page: str, words: str, variables: dict[str, str]) -> None:
    run([one for one in blocks(page) if words in one.code and one.info == "bash"], variables, folder=Path("/"))


def _takes_writes(nodes: Nodes, name: str) -> bool:
    with nodes.connect(name) as own:
        return own.execute("SELECT pg_is_in_recovery()").fetchone() == (False,)
