"""Steps of docs/operate/moving.md and docs/operate/restored-backup.md, with real servers of PostgreSQL."""

import json
import shutil
from pathlib import Path

from localnet import postgres
from tests.runbooks.clients import UNITS_OF_A_PAYMENT, Clients, Request
from tests.runbooks.installation import BACKUPS, PAYEE, Company, block
from tests.runbooks.owner import balance_of
from tests.runbooks.patience import wait_for
from tests.runbooks.releases import ORDER
from tests.support.clusters import Cluster
from tests.support.runbook import Done, blocks, run

MOVING = "docs/operate/moving.md"
_DATABASE = postgres.DATABASE
_PROGRAMS = str(postgres.binary("postgres").parent)


def as_postgres(server: Cluster, page: str, words: str, **variables: str | Path) -> Done:
    """Run a block of a page as the user of PostgreSQL."""
    given = {name: str(value) for name, value in variables.items()}
    environment = {"PATH": f"{_PROGRAMS}:/usr/bin:/bin", **given}
    return run(block(page, words), environment, folder=Path("/"), account=server.account)


# --- Moving -----------------------------------------------------------------------------------------------------------
def move(company: Company, clients: Clients) -> Cluster:
    """Move the installation to another server; returns that server, which archives its WAL."""
    old = postgres.daemon(company.servers.folder).folder
    old_server = f"host={postgres.socket_folder(company.servers.folder)} user={postgres.USER} dbname={_DATABASE}"
    new = company.add_server()
    with clients.at_work():
        as_postgres(new, MOVING, "pg_basebackup", OLD_SERVER=old_server, NEW_DATA=new.data)
        new.start()
        wait_for(lambda: _lag(new, old_server) == "0", "the new server has caught up")
        clients.wait_for_answers(1)
    company.stop()
    as_postgres(new, MOVING, "pg_ctl stop", OLD_DATA=old / "data")
    as_postgres(new, MOVING, "moved-away", OLD_DATA=old / "data")
    as_postgres(new, MOVING, "pg_ctl promote", NEW_DATA=new.data)
    company.use_server(new)
    checked = company.run(block(MOVING, "catch_up"))
    assert checked.answer["problems"] == []
    return new


def _lag(new: Cluster, old_server: str) -> str:
    return as_postgres(new, MOVING, "pg_stat_replication", OLD_SERVER=old_server).output.strip()


def _connection(server: Cluster) -> str:
    return f"host={server.socket} user={postgres.USER} dbname={_DATABASE}"


# --- Backup and restore -----------------------------------------------------------------------------------------------
def back_up(server: Cluster) -> Path:
    """Make a base backup of a server that others use; returns its folder.

    It is not verified here: `pg_verifybackup` of the wheel that has our PostgreSQL crashes, whatever it is given.
    """
    backup = server.socket / "backup"
    as_postgres(server, BACKUPS, "pg_basebackup", SERVER=_connection(server), BACKUP=backup)
    return backup


def archive(server: Cluster) -> None:
    """Have all that was committed so far archived, as it is after `archive_timeout`."""
    ((name,),) = server.execute("SELECT pg_walfile_name(pg_switch_wal())")
    last = "SELECT last_archived_wal >= %s FROM pg_stat_archiver"
    wait_for(lambda: server.execute(last, name) == [(True,)], "the WAL is archived")


def restore(company: Company, lost: Cluster, backup: Path) -> Cluster:
    """Lose the primary with its disk, and restore its backup into a new server."""
    lost.kill()
    shutil.rmtree(lost.data)
    company.this.kill()
    new = company.add_server()
    as_postgres(new, BACKUPS, "recovery.signal", BACKUP=backup, ARCHIVE=company.archive, DATA=new.data)
    new.start()
    wait_for(new.takes_writes, "it takes writes")
    company.use_server(new)
    assert company.run(block(BACKUPS, "max(created_at)")).output.split()[0] != "0"
    return new


def compare_with_chains(company: Company) -> None:
    """Find out that the chains know more than the backup, which stops signing."""
    (found,) = company.run(block(BACKUPS, "catch_up")).answer["chains"]
    assert found["unknown"]
    assert "The ledger does not know" in found["stoppedReason"]


def book_what_it_forgot(company: Company, forgotten: list[Request]) -> None:
    """Book each payment that the chain knows and the backup does not, as its agent's."""
    see, again = (one for one in blocks(BACKUPS) if "manage.py reconcile" in one.code)
    outflows = company.run([see], status=1).answer["outflows"]
    # The agents have the answers to their requests.
    agents = {json.loads(request.final[1])["tx"]: request.agent for request in forgotten}
    assert {one["tx"] for one in outflows} == agents.keys()
    for tx, agent in agents.items():
        company.run(block(BACKUPS, "book_outflow"), TX=tx, AGENT=agent)
    assert company.run([again]).answer["problems"] == []


def begin_again(company: Company) -> None:
    """Start the processes, and the chain that was stopped: until then `web` is not ready."""
    company.this.begin(*ORDER)
    company.run(block(BACKUPS, "start_chain"))
    company.this.wait_until_they_work(*ORDER)


def check_the_payee(company: Company, clients: Clients) -> None:
    """See that the payee has each payment once, those that the backup forgot too."""
    paid = {one.key for one in clients.asked if any(status == 201 for status, _ in one.answers)}
    assert balance_of(company, PAYEE.partition(":")[2]) == len(paid) * UNITS_OF_A_PAYMENT
