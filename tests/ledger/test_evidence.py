"""The log is evidence: the database refuses changes, and an entry that is changed all the same is found."""

import io
import json

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction

from foundation.kernel.ids import new_id
from ledger.models import BalanceMovement, LogEntry
from policy.models import PolicyRevision
from tests.support.histories import tamper
from tests.support.scenes import Scene, transaction_of


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
