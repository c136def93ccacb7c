"""Steps of docs/operate/moving.md and docs/operate/restored-backup.md, with real servers of PostgreSQL."""

import json
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.runbooks.clients import UNITS_OF_A_PAYMENT, Clients, Request
from tests.runbooks.installation import AGENTS, BACKUPS, PAYEE, Company, block
from tests.runbooks.owner import balance_of
from tests.runbooks.patience import wait_for
from tests.runbooks.releases import ORDER
from tests.support.clusters import Cluster
from tests.support.runbook import Done, blocks, run
from workshop.localnet import postgres

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


def spend(clients: Clients, count: int) -> list[Request]:
    """Let the agents pay so often all together, each one payment after the other."""
    share = [(agent, count // len(AGENTS) + (at < count % len(AGENTS))) for at, agent in enumerate(AGENTS)]
    with ThreadPoolExecutor(len(AGENTS)) as pool:
        paid = pool.map(lambda one: [clients.pay(one[0]) for _ in range(one[1])], share)
        return [request for of_agent in paid for request in of_agent]


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


def compare_with_chains(company: Company, forgotten: list[Request]) -> None:
    """Find out that the chains know more than the backup, which stops signing."""
    (found,) = company.run(block(BACKUPS, "catch_up")).answer["chains"]
    assert found["unknown"] == len(forgotten)
    assert "The ledger does not know" in found["stoppedReason"]


def book_what_it_forgot(company: Company, forgotten: list[Request], folder: Path) -> None:
    """Book all payments that the chain knows and the backup does not, each as its agent's: by one command, but for one.

    The first agent has kept its keys. Of the others the log of `worker` tells, but for one payment that only its agent
    knows.
    """
    see, again = (one for one in blocks(BACKUPS) if "manage.py reconcile" in one.code)
    outflows = company.run([see], status=1).answer["outflows"]
    agents = {json.loads(request.final[1])["tx"]: request.agent for request in forgotten}
    assert {one["tx"] for one in outflows} == agents.keys()
    proven = [one for one in forgotten if one.agent == AGENTS[0]]
    unknown = next(one for one in forgotten if one.agent != AGENTS[0])
    log, keys = folder / "worker.log", folder / "keys.csv"
    lines = company.this.log_of("worker").splitlines(keepends=True)
    log.write_text("".join(line for line in lines if unknown.payment not in line))
    keys.write_text("".join(f"{one}\n" for one in ("agent,idempotencyKey", *(f"{o.agent},{o.key}" for o in proven))))

    booked = company.run(block(BACKUPS, "book_outflow --all"), typed="yes\n", LOG=log, KEYS=keys).answer

    assert booked["booked"] == len(forgotten) - 1
    assert {one["agent"]: (one["outflows"], one["proven"]) for one in booked["as"]} == _sums(forgotten, unknown)
    (left,) = booked["notBooked"]
    company.run(block(BACKUPS, 'book_outflow "$TX"'), TX=left["tx"], AGENT=agents[left["tx"]])
    assert company.run([again]).answer["problems"] == []


def _sums(forgotten: list[Request], unknown: Request) -> dict[str, tuple[int, int]]:
    """Say of each agent how many are booked by the list, and how many of these are proven: all whose keys are known."""
    counts = Counter(one.agent for one in forgotten if one is not unknown)
    return {agent: (count, count if agent == AGENTS[0] else 0) for agent, count in counts.items()}


def begin_again(company: Company) -> None:
    """Start the processes, and the chain that was stopped: until then `web` is not ready."""
    company.this.begin(*ORDER)
    company.run(block(BACKUPS, "start_chain"))
    company.this.wait_until_they_work(*ORDER)


def check_the_payee(company: Company, clients: Clients) -> None:
    """See that the payee has each payment once, those that the backup forgot too."""
    paid = {one.key for one in clients.asked if any(status == 201 for status, _ in one.answers)}
    assert balance_of(company, PAYEE.partition(":")[2]) == len(paid) * UNITS_OF_A_PAYMENT
