"""The installation that the runbooks are rehearsed on: servers of its own, this release, agents, a payee."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from tests.runbooks.clients import Clients
from tests.runbooks.patience import wait_for
from tests.runbooks.releases import ORDER, Release, running
from tests.services.webhooks.receivers import Receiver
from tests.support.clusters import Cluster
from tests.support.runbook import Block, Done, blocks, run
from workshop.localnet import postgres, redis_server
from workshop.localnet.account import Account
from workshop.localnet.folder import ROOT
from workshop.tests.localnet.installation import Installation

BACKUPS = "docs/operate/restored-backup.md"
AGENTS = ("agent-1", "agent-2", "agent-3")
PAYEE = "evm-localnet:0x57ea7ae200000000000000000000000000000001"
# By what every release has: commands, and the operations behind the registration of a payee.
_FURNISH = """
from django.core.management import call_command
from services.operations import Registration, approve_service, register_service
for agent in {agents!r}:
    call_command("create_agent", agent, "--asset", "USDC", "--max-per-payment", "10", "--daily-limit", "1000",
                 "--weekly-limit", "1000", "--fund", "1000", "--chain", "evm-localnet")
register_service(Registration(id="shop", name="A shop", recipient={payee!r}, asset="USDC", webhook_url={url!r}))
approve_service("shop", by="test")
call_command("create_api_key", "--name", "load")
"""


@dataclass(slots=True)
class Company:
    """An installation and who uses it. `this` is this release; it runs once `begin` was called.

    `archive`: where its databases keep their WAL. `databases`: those that took the place of the first one.
    """

    servers: Installation
    this: Release
    payee: Receiver
    archive: Path
    clients: Clients | None = None
    databases: list[Cluster] = field(default_factory=list)

    def begin(self, release: Release) -> Clients:
        """Let a release be the first one here; returns those who pay."""
        release.migrate()
        release.start(*ORDER)
        said = release.manage("shell", "-c", _FURNISH.format(agents=AGENTS, payee=PAYEE, url=self.payee.url()))
        key = json.loads(said.strip().splitlines()[-1])["apiKey"]
        self.clients = Clients(release.url, key, "shop", AGENTS)
        return self.clients

    def run(self, chosen: Sequence[Block], *, status: int = 0, typed: str = "", **given: str | Path) -> Done:
        """Run blocks of a runbook as the operator of this release does; `typed` answers what they ask."""
        variables = {**self.this.variables, "URL": self.this.url, "CHAIN": "evm-localnet"}
        variables |= {name: str(value) for name, value in given.items()}
        return run(chosen, variables, status=status, typed=typed)

    def stop(self) -> None:
        """Stop all processes, those first that ask others to work."""
        for kind in ("beat", "web", "webhooks", "worker"):
            self.this.stop(kind)

    def add_server(self) -> Cluster:
        """Make room for another server of PostgreSQL, which archives its WAL as the runbook has it."""
        made = Cluster(None, archive_settings(self.archive))
        # It follows the first one, whose socket may lie where nobody else can enter.
        made.account = Account.for_server(postgres.daemon(self.servers.folder).folder, postgres.binary("postgres"))
        made.account.own(self.archive)
        self.databases.append(made)
        return made

    def use_server(self, server: Cluster) -> None:
        """Tell the processes that are started from now on of another server."""
        self.this.variables["DATABASE_URL"] = server.url(postgres.DATABASE)

    def wait_until_settled(self) -> None:
        """Wait until all that was ever approved is settled."""
        wait_for(lambda: not self.sql("SELECT FROM payments_payment WHERE status <> 'settled'"), "all is settled")

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.this.variables["DATABASE_URL"]) as session:
            return session.execute(query.encode()).fetchall()


def block(page: str, words: str) -> list[Block]:
    """Find the commands of a page that have these words."""
    (found,) = (one for one in blocks(page) if one.info == "bash" and words in one.code)
    return [found]


def archive_settings(archive: Path) -> dict[str, str]:
    """Read what the runbook wants of a server that is backed up.

    Without its `archive_timeout`: what is to be forgotten later must not be archived because a test took a minute.
    """
    (found,) = (one.code for one in blocks(BACKUPS) if one.info == "ini")
    pairs = (line.split(" = ", 1) for line in found.replace("ARCHIVE", str(archive)).splitlines())
    return {name: value.strip("'") for name, value in pairs if name != "archive_timeout"}


@contextmanager
def founded(folder: Path) -> Iterator[Company]:
    """Have the servers, and nothing of the product yet; nothing outlives the block."""
    servers = Installation(folder / "data", only=("postgres", "redis", "evm"))
    with TemporaryDirectory(prefix="allowance-wal-") as archive, Receiver() as payee:
        try:
            _, found = servers.use()
            own = {"PATH": _path(), "HOME": str(folder), "ALLOWED_HOSTS": "127.0.0.1", "RELAYERS_PER_CHAIN": "4"}
            own |= {"LOG_FORMAT": "json", "ACCESS_LOG": "true"}
            logs = folder / "logs"
            logs.mkdir()
            company = Company(servers, Release("this", ROOT, {**found, **own}, logs), payee, Path(archive))
            with running(company.this):
                yield company
            for database in company.databases:
                database.remove()
        finally:
            servers.stop()


def _path() -> str:
    """Name where the programs are that the pages call: this Python, and the clients of the servers that run here."""
    own = (Path(sys.executable), postgres.binary("psql"), redis_server.binary())
    return os.pathsep.join([*(str(program.parent) for program in own), os.environ.get("PATH", os.defpath)])
