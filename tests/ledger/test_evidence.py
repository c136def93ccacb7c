"""The log is evidence: the database refuses changes, and what somebody changes all the same is found."""

import io
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from allowance.kernel.ids import new_id
from ledger.models import BalanceMovement, LogEntry
from ledger.operations import fund_agent
from ledger.receipts import MEMBERS, receipt
from payments.deciding.operations import request_payment
from payments.models import Payment, Relayer
from payments.reconciling.escrow_history import search_history
from payments.settling.broadcasting import broadcast
from payments.settling.confirming import confirm
from payments.settling.unpaid import resolve_unpaid
from policy.models import Agent, PolicyRevision
from policy.signer import published_keys, receipt_jwk
from tests.support.chains import FakeChain, environment_of, make_fake_chain, make_request, make_service_on, pay_on
from tests.support.factories import make_agent, make_service
from tests.support.scenes import Scene, transaction_of


class History:
    """An agent with a little of everything: approved, blocked, refused by the signer, failed and given back."""

    def __init__(self) -> None:
        chain: FakeChain = make_fake_chain()
        service = make_service_on(chain)
        self.agent = make_agent(daily_limit="6", max_per_payment="6")
        pay_on(chain, self.agent, service, "1.00")
        # Another relayer's: that its nonce is used says nothing of the first payment.
        Relayer.objects.filter(chain=chain.name, next_nonce=1).update(is_enabled=False)
        failing = pay_on(chain, self.agent, service, "2.00")
        broadcast(chain.name, chain)
        chain.include(failing.settlements.get(), failure="Reverted.")
        confirm(chain.name, chain)
        resolve_unpaid(chain.name, chain)
        chain.include(failing.settlements.get(is_void=True))
        search_history(chain.name, chain)
        pay_on(chain, self.agent, service, "3.00")
        for unserved, amount in ((chain, "5.00"), (FakeChain("nowhere"), "0.50")):
            with pytest.raises(Exception, match=r"limit|served"):
                request_payment(make_request(self.agent, service, amount), environment_of(unserved))
        pay_on(chain, self.agent, service, "0.25")
        fund_agent(self.agent.id, amount=Decimal(2000), by="test")
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        self.entries = list(LogEntry.objects.filter(agent=self.agent).order_by("id"))

    @property
    def middle(self) -> LogEntry:
        return self.entries[2]

    def verify(self) -> dict[str, Any]:
        """Run `verify_log` for this agent; returns its last line."""
        output = io.StringIO()
        try:
            call_command("verify_log", agent=self.agent.id, stdout=output, stderr=io.StringIO())
        except CommandError:
            result: dict[str, Any] = json.loads(output.getvalue().splitlines()[-1])
            assert result["problems"]
        else:
            result = json.loads(output.getvalue().splitlines()[-1])
            assert not result["problems"]
        return result

    def problems_after(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        """Change something as someone who may do anything to the database, verify, and undo it."""
        with transaction.atomic():
            tamper(statement, *parameters)
            problems: list[dict[str, Any]] = self.verify()["problems"]
            transaction.set_rollback(True)
        assert {problem["agentId"] for problem in problems} <= {self.agent.id}
        return problems


def tamper(statement: str, *parameters: Any) -> None:
    """Execute a statement without triggers, foreign keys among them: as an owner of the database could."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(statement, parameters)
        assert cursor.rowcount > 0
        cursor.execute("SET LOCAL session_replication_role = origin")


@pytest.fixture
def history(db: None) -> History:
    return History()


# --- The database refuses ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "table", ["ledger_logentry", "ledger_balancemovement", "ledger_clockrepair", "policy_policyrevision"]
)
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {} SET agent_id = agent_id",
        "UPDATE {} SET agent_id = agent_id WHERE false",
        "DELETE FROM {}",
        "TRUNCATE {} CASCADE",
    ],
)
def test_the_database_refuses_to_change_what_was_written(history, table, statement):
    with pytest.raises(DatabaseError, match="is append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement.format(table))


@pytest.mark.parametrize("model", [LogEntry, BalanceMovement, PolicyRevision])
def test_the_orm_is_refused_as_well(history, model):
    rows = model.objects.filter(agent=history.agent)
    for change in (rows.first().save, lambda: rows.update(agent="other"), lambda: rows._raw_delete("default")):
        with pytest.raises(DatabaseError, match="is append-only"), transaction.atomic():
            change()


# --- What is changed all the same is found ----------------------------------------------------------------------------
def test_an_untouched_log_has_no_problems(history):
    assert history.verify() == {"agents": 1, "entries": 6, "problems": []}


def test_a_payment_that_another_transaction_settled_than_the_entry_names_is_in_order(db):
    scene = Scene()
    payment = scene.pay_and_send()
    scene.bump()
    scene.chain.include(transaction_of(payment))
    scene.confirm()
    output = io.StringIO()

    call_command("verify_log", agent=scene.agent.id, stdout=output)

    assert transaction_of(payment).tx != payment.entry.tx
    assert json.loads(output.getvalue().splitlines()[-1])["problems"] == []


FORGERIES = {
    "agent_id": "'somebody-else'",
    "service": "'another-service'",
    "amount": "'3.000'",
    "asset": "'EURC'",
    "result": "'blocked'",
    "rule": "'under_daily_limit'",
    "created_at": "created_at + interval '1 millisecond'",
    "reason": "'Another reason'",
    "metadata_json": "'{}'",
    "policy_revision": "policy_revision + 1",
    "payment_id": "'pay_00000000000000000000000000'",
    "tx": "'0x00'",
    "explanation_json": "'{}'",
    "hash": "repeat('0', 64)",
    "previous_hash": "repeat('0', 64)",
    "signature": "reverse(signature)",
    "key_id": "'another-key'",
    "spent_total": "spent_total + 1",
    "id": "overlay(id placing '00000000' from 23)",
    "idempotency_key": "NULL",
    "fingerprint": "NULL",
    "clock_repairs": "1",
    "refused_request": "repeat('0', 64)",
}


def test_every_column_of_an_entry_has_its_forgery():
    assert FORGERIES.keys() == {field.attname for field in LogEntry._meta.concrete_fields}


@pytest.mark.parametrize("column", FORGERIES)
def test_a_changed_column_of_an_entry_is_found(history, column):
    if column in ("result", "payment_id", "tx"):
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE ledger_logentry DROP CONSTRAINT log_only_approved_pays")

    problems = history.problems_after(
        f"UPDATE ledger_logentry SET {column} = {FORGERIES[column]} WHERE id = %s",  # noqa: S608 - from this file
        history.middle.id,
    )

    assert problems


@pytest.mark.parametrize("change", ["idempotency_key = 'another'", "fingerprint = decode(repeat('00', 32), 'hex')"])
def test_another_idempotency_record_of_an_entry_is_found(history, change):
    problems = history.problems_after(
        f"UPDATE ledger_logentry SET {change} WHERE id = %s",  # noqa: S608 - from this file
        history.middle.id,
    )
    # The key alone also stands behind what the chain knows the payment by.
    assert {problem["entryId"] for problem in problems} == {history.middle.id}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE payments_payment SET recipient = '0x0000000000000000000000000000000000000001' WHERE agent_id = %s",
        "UPDATE policy_policyrevision SET daily_limit = daily_limit + 1 WHERE agent_id = %s",
    ],
)
def test_a_changed_recipient_or_policy_behind_an_approved_entry_is_found(history, statement):
    assert history.problems_after(statement, history.agent.id)


@pytest.mark.parametrize(
    ("column", "nonsense"),
    [
        ("amount", "ten"),
        ("amount", ""),
        ("amount", "NaN"),
        ("metadata_json", "{"),
        ("metadata_json", '{"a": NaN}'),
        ("explanation_json", ""),
        ("signature", "?"),
    ],
)
def test_an_entry_that_cannot_even_be_read_is_found(history, column, nonsense):
    problems = history.problems_after(
        f"UPDATE ledger_logentry SET {column} = %s WHERE id = %s",  # noqa: S608 - from this file
        nonsense,
        history.middle.id,
    )

    assert history.middle.id in [problem["entryId"] for problem in problems]


def test_a_missing_entry_in_the_middle_is_found_at_the_next_one(history):
    problems = history.problems_after("DELETE FROM ledger_logentry WHERE id = %s", history.middle.id)

    assert history.entries[3].id in [problem["entryId"] for problem in problems]


@pytest.mark.parametrize("number", [0, -1], ids=["first", "newest"])
def test_a_missing_entry_at_either_end_is_found(history, number):
    assert history.problems_after("DELETE FROM ledger_logentry WHERE id = %s", history.entries[number].id)


def test_a_log_that_is_missing_altogether_is_found(history):
    assert history.problems_after("DELETE FROM ledger_logentry WHERE agent_id = %s", history.agent.id)


def test_an_entry_that_was_added_is_found(history):
    columns = ", ".join(name for name in FORGERIES if name not in ("id", "idempotency_key"))

    problems = history.problems_after(
        f"INSERT INTO ledger_logentry (id, {columns}) "  # noqa: S608 - from this file
        f"SELECT %s, {columns} FROM ledger_logentry WHERE id = %s",
        new_id("log", history.entries[-1].created_at, after=history.entries[-1].id),
        history.entries[-1].id,
    )

    assert problems


def test_entries_that_changed_places_are_found(history):
    one, other = history.entries[3].id, history.entries[4].id
    move = "UPDATE ledger_logentry SET id = %s WHERE id = %s"
    tamper(move, "log_aside", one)
    tamper(move, one, other)

    problems = history.problems_after(move, other, "log_aside")

    assert {one, other} <= {problem["entryId"] for problem in problems}
    tamper(move, other, one)
    tamper(move, one, "log_aside")


@pytest.mark.parametrize("column", ["balance", "spent_total"])
def test_a_changed_amount_of_an_agent_is_found(history, column):
    assert history.problems_after(
        f"UPDATE policy_agent SET {column} = {column} + 1 WHERE id = %s",  # noqa: S608 - from this file
        history.agent.id,
    )


def test_an_agent_whose_head_was_turned_back_is_found(history):
    earlier = history.entries[-2]

    assert history.problems_after(
        "UPDATE policy_agent SET last_entry_id = %s, last_entry_hash = %s WHERE id = %s",
        earlier.id, earlier.hash, history.agent.id,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["funding", "payment", "return"])
def test_a_missing_movement_is_found_even_if_the_balance_was_changed_with_it(history, kind):
    movement = BalanceMovement.objects.filter(agent=history.agent, kind=kind).earliest("id")
    tamper("UPDATE policy_agent SET balance = balance - %s WHERE id = %s", movement.amount, history.agent.id)

    assert history.problems_after("DELETE FROM ledger_balancemovement WHERE id = %s", movement.id)


def test_a_movement_of_another_amount_is_found(history):
    assert history.problems_after(
        "UPDATE ledger_balancemovement SET amount = amount - 1 WHERE agent_id = %s AND kind = 'payment'",
        history.agent.id,
    )


@pytest.mark.parametrize(
    "change",
    [
        "amount = amount + 1",
        "service_id = %s",
        "status = 'failed', failed_at = now()",
        "created_at = now()",
        "escrow_id = '0x' || repeat('0', 64)",
    ],
)
def test_a_payment_that_is_not_what_its_entry_says_is_found(history, change):
    payment = Payment.objects.filter(agent=history.agent).order_by("id").first()
    assert payment
    others = [make_service().id] if "%s" in change else []

    assert history.problems_after(
        f"UPDATE payments_payment SET {change} WHERE id = %s",  # noqa: S608 - from this file
        *others,
        payment.id,
    )


def test_a_payment_without_its_transaction_is_found(history):
    payment = Payment.objects.filter(agent=history.agent).first()
    assert payment

    assert history.problems_after("DELETE FROM payments_settlement WHERE payment_id = %s", payment.id)


def test_only_the_agent_that_was_named_is_verified(history):
    other = History()
    tamper("UPDATE ledger_logentry SET reason = 'Another' WHERE id = %s", other.middle.id)

    assert history.verify()["problems"] == []
    assert [problem["entryId"] for problem in other.verify()["problems"]] == [other.middle.id]


def test_an_agent_that_does_not_exist_cannot_be_verified(db):
    with pytest.raises(CommandError, match="no agent"):
        call_command("verify_log", agent="nobody", stdout=io.StringIO(), stderr=io.StringIO())


# --- One receipt, offline ---------------------------------------------------------------------------------------------


class Desk:
    """An auditor's desk: a receipt, the published keys, and nothing else."""

    def __init__(self, folder: Path, entry: LogEntry) -> None:
        self.receipt: Any = json.loads(json.dumps(receipt(entry)))
        self.keys: Any = json.loads(json.dumps(published_keys()))
        self._receipt_file, self._keys_file = folder / "receipt.json", folder / "keys.json"

    def write(self) -> list[str]:
        self._receipt_file.write_text(json.dumps(self.receipt))
        self._keys_file.write_text(json.dumps(self.keys))
        return [str(self._receipt_file), "--keys", str(self._keys_file)]

    def verify(self) -> dict[str, Any]:
        output = io.StringIO()
        call_command("verify_receipt", *self.write(), stdout=output)
        result: dict[str, Any] = json.loads(output.getvalue())
        return result


@pytest.fixture
def desk(history: History, tmp_path: Path) -> Desk:
    return Desk(tmp_path, history.middle)


def test_every_kind_of_receipt_is_verified(history, tmp_path):
    for entry in history.entries:
        assert Desk(tmp_path, entry).verify() == {"valid": True, "id": entry.id, "keyId": entry.key_id}


def test_the_order_of_members_does_not_matter(desk):
    desk.receipt = dict(reversed(desk.receipt.items()))
    assert desk.verify()["valid"]


@pytest.mark.parametrize("member", MEMBERS)
def test_a_changed_member_is_refused(desk, member):
    old = desk.receipt[member]
    if isinstance(old, str):
        desk.receipt[member] = f"{old}0"
    else:
        desk.receipt[member] = {**(old or {}), "limit": "1"}
    with pytest.raises(CommandError):
        desk.verify()


@pytest.mark.parametrize("member", MEMBERS)
def test_a_missing_member_is_refused(desk, member):
    del desk.receipt[member]
    with pytest.raises(CommandError, match=member):
        desk.verify()


def test_an_added_member_is_refused(desk):
    desk.receipt["approvedBy"] = "finance"
    with pytest.raises(CommandError, match="approvedBy"):
        desk.verify()


def test_a_receipt_under_another_key_of_the_same_name_is_refused(desk):
    stranger = Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    desk.keys = {"keys": [{**receipt_jwk(stranger), "kid": desk.receipt["keyId"]}]}
    with pytest.raises(CommandError, match="signature"):
        desk.verify()


def test_a_key_that_is_not_published_is_refused(desk):
    desk.keys = {"keys": [key for key in desk.keys["keys"] if key["kid"] != desk.receipt["keyId"]]}
    with pytest.raises(CommandError, match="not among the published keys"):
        desk.verify()


@pytest.mark.parametrize("content", [[], "text", None, 7])
def test_what_is_no_receipt_is_refused(desk, content):
    desk.receipt = content
    with pytest.raises(CommandError, match="not a JSON object"):
        desk.verify()


@pytest.mark.parametrize(
    "content", [[], {}, {"keys": {}}, {"keys": ["text"]}, {"keys": [{"kid": 1, "crv": "Ed25519"}]}]
)
def test_what_is_no_key_set_is_refused(desk, content):
    desk.keys = content
    with pytest.raises(CommandError):
        desk.verify()


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b'{"id": 1'])
def test_what_is_not_json_is_refused(desk, tmp_path, text):
    arguments = desk.write()
    Path(arguments[0]).write_bytes(text)
    with pytest.raises(CommandError, match="cannot be read as JSON"):
        call_command("verify_receipt", *arguments, stdout=io.StringIO())


def test_a_receipt_is_verified_without_database_network_and_settings(desk):
    def run() -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "manage.py", "verify_receipt", *desk.write()]
        return subprocess.run(command, env={}, cwd=settings.BASE_DIR, capture_output=True, text=True, check=False)

    fine = run()
    desk.receipt["amount"] = "1000000"
    forged = run()

    assert fine.returncode == 0, fine.stderr
    assert json.loads(fine.stdout)["valid"] is True
    assert (forged.returncode, forged.stdout) == (1, "")
    assert "hash does not match" in forged.stderr
    assert "Traceback" not in forged.stderr


def test_the_head_of_an_agent_is_its_newest_entry(history):
    assert Agent.objects.get(pk=history.agent.id).last_entry_id == history.entries[-1].id
