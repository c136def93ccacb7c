"""A backup that was restored is not served as if nothing had happened, and no key is paid twice.

With real copies of a real database, and every step as docs/operate/restored-backup.md has it, on either kind of chain.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from foundation.environment.connections import read_database
from workshop.localnet.folder import ROOT
from workshop.tests.localnet.installation import Installation

pytestmark = [pytest.mark.hard, pytest.mark.long(45)]

ACT = "from tests.attacks.backup_story import act; act(*{acts!r})"
UNITS = 10**6


class Restored:
    """An installation of its own, what its operator does with it, and its backup."""

    def __init__(self, path: Path, chain: str) -> None:
        self.installation = Installation(path / "data")
        self._holder, found = self.installation.use()
        self._variables = {**self.installation.variables, **found, "EMBEDDED": "true", "CHAIN": chain}
        self.manage("migrate")

    def act(self, *acts: tuple[str, ...]) -> list[dict[str, Any]]:
        """Have a process of its own do one thing after the other; returns what came of each."""
        found: list[dict[str, Any]] = json.loads(self.manage("shell", "-c", ACT.format(acts=acts)))
        return found

    def manage(self, *arguments: str, status: int = 0) -> str:
        """Run a command as its operator does; returns the last line that it prints."""
        command = [sys.executable, "-W", "ignore", str(ROOT / "manage.py"), *arguments]
        done = subprocess.run(
            command, env=self._variables, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout.strip().rpartition("\n")[2]

    def back_up(self) -> None:
        self._copy(self._database, "backup")

    def restore(self) -> None:
        self._copy("backup", self._database)

    def _copy(self, source: str, target: str) -> None:
        """Let the server copy a database, all files of it, in place of another one."""
        server = {"host": self._found["HOST"], "user": self._found["USER"], "dbname": "postgres"}
        with psycopg.connect(**server, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{target}" WITH (FORCE)'.encode())
            connection.execute(f'CREATE DATABASE "{target}" TEMPLATE "{source}"'.encode())

    @property
    def _found(self) -> dict[str, Any]:
        return read_database(self._variables["DATABASE_URL"])

    @property
    def _database(self) -> str:
        return str(self._found["NAME"])


@pytest.fixture(params=["evm-localnet", "solana-localnet"])
def restored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Restored]:
    made = Restored(tmp_path, request.param)
    yield made
    made.installation.stop()


def test_what_a_restored_backup_forgot_stops_signing_is_listed_and_can_be_booked(restored):
    _, known = restored.act(("prepare",), ("pay", "order-1", "10"))
    restored.back_up()
    forgotten, _ = restored.act(("pay", "order-2", "20"), ("bury",))
    assert [one["status"] for one in (known, forgotten)] == ["settled"] * 2
    restored.restore()

    # As release does, before anything is served.
    found = {one["chain"]: one for one in json.loads(restored.manage("catch_up"))["chains"]}
    (stopped,) = [one for one in found.values() if one["unknown"]]
    assert "The ledger does not know" in stopped["stoppedReason"]
    # The client that lost its answer asks again, under the same key; and nothing else is paid either.
    before, again, other, after = restored.act(
        ("balance",), ("ask", "order-2", "20"), ("ask", "order-3", "1"), ("balance",)
    )
    assert before == after == {"payee": 30 * UNITS, "agent": "90.00"}
    assert again["refused"] == other["refused"] == "policy_signer_unavailable"

    report = json.loads(restored.manage("reconcile", status=1))
    (outflow,) = report["outflows"]
    assert outflow["amount"] == "20.00"
    restored.manage("book_outflow", outflow["tx"], "--agent", "customer", "--reason", "order-2, paid after the backup")
    restored.manage("start_chain", stopped["chain"])

    # On an EVM chain the escrow itself has used the key up.
    is_evm = stopped["chain"].startswith("eip155:")
    asked = [("ask", "order-2", "20")] if is_evm else []
    booked, *refused, paid, above = restored.act(("balance",), *asked, ("pay", "order-3", "1"), ("counted",))
    assert booked == {"payee": 30 * UNITS, "agent": "70.00"}
    assert [one["refused"] for one in refused] == ["policy_signer_unavailable"] * len(asked)
    assert paid["status"] == "settled"
    assert above == {"counted": ["10.00", "1.00"], "above": ["company"]}
    restored.manage("reconcile")
    restored.manage("verify_log")


@pytest.mark.parametrize("restored", ["evm-localnet"], indirect=True)
def test_nothing_is_paid_with_a_nonce_that_a_young_backup_forgot_before_a_worker_has_looked(restored):
    restored.act(("prepare",), ("pay", "order-1", "10"))
    restored.back_up()
    restored.act(("pay", "order-2", "20"), ("bury",))
    restored.restore()
    restored.manage("catch_up")
    (outflow,) = json.loads(restored.manage("reconcile", status=1))["outflows"]
    restored.manage("book_outflow", outflow["tx"], "--agent", "customer", "--reason", "order-2, paid after the backup")
    restored.manage("start_chain", "evm-localnet")

    early, paid = restored.act(("rush", "order-3", "1"), ("pay", "order-3", "1"))

    assert early == {
        "refused": "policy_signer_unavailable",
        "message": "The state of the service's chain is not known well enough.",
    }
    assert paid["status"] == "settled"
