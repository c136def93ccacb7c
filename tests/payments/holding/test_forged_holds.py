"""`verify_log` notices what was forged about a payment that a person has to approve: in its row, or in the log."""

from decimal import Decimal
from typing import Any

import pytest
from django.db import connection, transaction

from foundation.kernel.canonical import canonical_json
from foundation.kernel.ids import new_id
from ledger.models import Hold, HoldAnswer, LogEntry
from ledger.receipts import receipt, seal
from policy.models import Agent
from policy.more_limits import MoreLimits, write_more
from policy.signer import local_signer
from tests.support.clocks import problems_of
from tests.support.factories import decide, make_agent, make_service
from tests.support.histories import tamper
from tests.support.holds import approve, asks_above, decline, finish, say

pytestmark = [pytest.mark.django_db, pytest.mark.rolled_back]


class Asked:
    """An agent with a payment in each state: it waits, it was approved, it was declined."""

    def __init__(self) -> None:
        self.agent: Agent = asks_above()
        self.service = make_service()
        self.open, self.approved, self.declined = (decide(self.agent, self.service, "6") for _ in range(3))
        self.paid = approve(self.approved)
        self.refused = decline(self.declined)
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        assert problems_of(self.agent) == []

    def problems_after(self, statement: str, *parameters: Any) -> list[str]:
        with transaction.atomic():
            tamper(statement, *parameters)
            found = problems_of(self.agent)
            transaction.set_rollback(True)
        return [str(one) for one in found]


@pytest.fixture
def asked(db: None) -> Asked:
    return Asked()


_OF_ROWS = {
    "id": "overlay(id placing '00000000' from 23)",
    "agent_id": "'somebody-else'",
    "entry_id": "'log_00000000000000000000000000'",
    "service": "'another-service'",
    "amount": "amount - 1",
    "created_at": "created_at - interval '1 second'",
    "expires_at": "expires_at + interval '1 hour'",
}


@pytest.mark.parametrize("column", _OF_ROWS)
@pytest.mark.parametrize("state", ["open", "approved", "declined"])
def test_a_changed_column_of_a_hold_is_found(asked, column, state):
    statement = f"UPDATE ledger_hold SET {column} = {_OF_ROWS[column]} WHERE entry_id = %s"  # noqa: S608 - from this file

    assert asked.problems_after(statement, getattr(asked, state).id)


@pytest.mark.parametrize("state", ["open", "approved", "declined"])
def test_a_hold_that_is_missing_is_found(asked, state):
    problems = asked.problems_after("DELETE FROM ledger_hold WHERE entry_id = %s", getattr(asked, state).id)

    assert any(one.endswith("holds a payment that is not there.") for one in problems)


@pytest.mark.parametrize(
    ("state", "change"),
    [
        ("approved", "answer = 'decline'"),
        ("declined", "answer = 'approve'"),
        ("approved", "answered_by = 'mallory'"),
        ("declined", "answered_by = 'mallory'"),
        ("approved", "answer_reason = 'Another'"),
        ("declined", "answer = '', answered_by = '', answer_reason = '', answered_at = NULL"),
        ("approved", "ended_at = ended_at + interval '1 second'"),
        ("approved", "ended_at = NULL, final_entry_id = NULL"),
        ("declined", "ended_at = NULL, final_entry_id = NULL"),
        ("open", "ended_at = now(), final_entry_id = entry_id"),
        ("open", "answer = 'approve', answered_by = 'fiona', answer_reason = 'R', answered_at = now()"),
    ],
)
def test_a_changed_answer_or_end_of_a_hold_is_found(asked, state, change):
    statement = f"UPDATE ledger_hold SET {change} WHERE entry_id = %s"  # noqa: S608 - from this file

    assert asked.problems_after(statement, getattr(asked, state).id)


def test_an_approval_that_somebody_wrote_into_the_row_is_found_after_it_was_paid(asked):
    tamper(
        "UPDATE ledger_hold SET answer = 'approve', answered_by = 'fiona', answer_reason = 'R', answered_at = now() "
        "WHERE entry_id = %s",
        asked.open.id,
    )

    assert finish(asked.open)
    assert problems_of(asked.agent) == [
        f"{asked.open.payment_id} has an answer by fiona of which the audit has nothing."
    ]


def test_a_hold_of_no_decision_is_found(asked):
    columns = ", ".join(field.column for field in Hold._meta.concrete_fields if field.column not in ("id", "entry_id"))
    statement = (
        f"INSERT INTO ledger_hold (id, entry_id, {columns}) "  # noqa: S608 - our own names
        f"SELECT 'pay_00000000000000000000000000', 'log_0', {columns} FROM ledger_hold WHERE entry_id = %s"
    )

    assert asked.problems_after(statement, asked.open.id) == ["pay_00000000000000000000000000 is held by no decision."]


# --- Entries that somebody with the signer's key has forged -----------------------------------------------------------
def forge(entry: LogEntry, agent: Agent, **changes: Any) -> LogEntry:
    """Add an entry like another one to the end of an agent's log, sealed as we would."""
    agent = Agent.objects.get(pk=agent.pk)
    forged = LogEntry.objects.get(pk=entry.pk)
    for name, value in changes.items():
        setattr(forged, name, value)
    forged.pk = new_id("log", forged.created_at, after=agent.last_entry_id)
    forged.previous_hash, forged.spent_total = agent.last_entry_hash, agent.spent_total
    forged.hash, forged.signature = seal(receipt(forged), local_signer().sign_receipt)
    forged.save(force_insert=True)
    Agent.objects.filter(pk=agent.pk).update(
        last_entry_id=forged.pk, last_entry_hash=forged.hash, last_entry_at=forged.created_at
    )
    return forged


def explanation_of(entry: LogEntry, **changes: Any) -> str:
    kept = {name: value for name, value in entry.explanation.items() if changes.get(name, value) is not None}
    return canonical_json(kept | {name: value for name, value in changes.items() if value is not None}).decode()


def test_a_second_end_of_a_hold_is_found(asked):
    second = forge(asked.refused, asked.agent)

    assert f"The decisions {asked.refused.id} and {second.id} end the same hold {asked.declined.id}." in problems_of(
        asked.agent
    )


def test_an_end_without_a_beginning_is_found(asked):
    forged = forge(
        asked.refused,
        asked.agent,
        explanation_json=explanation_of(asked.refused, heldBy="log_00000000000000000000000000"),
    )

    assert problems_of(asked.agent) == [f"The decision {forged.id} ends a hold that no decision began."]


def test_an_end_that_the_row_does_not_know_is_found(asked):
    forge(asked.refused, asked.agent, explanation_json=explanation_of(asked.refused, heldBy=asked.open.id))

    assert f"{asked.open.payment_id} was not ended by the decision that the log has." in problems_of(asked.agent)


def test_an_end_of_another_amount_is_found(asked):
    forged = forge(
        asked.refused, asked.agent, amount="7", explanation_json=explanation_of(asked.refused, heldBy=asked.open.id)
    )

    assert f"The decision {forged.id} is not about what {asked.open.id} holds." in problems_of(asked.agent)


# --- Approvals that a person should have been asked about -------------------------------------------------------------
UNASKED = "It was approved without a person, whom its policy has asked."


def have_asked(agent: Agent, more: MoreLimits) -> None:
    """Let the policy have asked for a person all along."""
    tamper("UPDATE policy_policyrevision SET more_json = %s WHERE agent_id = %s", write_more(more), agent.id)


@pytest.mark.parametrize(
    ("more", "is_found"),
    [
        (MoreLimits(approval_above=Decimal("2.99")), True),
        (MoreLimits(approval_above=Decimal(3)), False),
        (MoreLimits(approval_above_day=Decimal("4.99")), True),
        (MoreLimits(approval_above_day=Decimal(5)), False),
        (MoreLimits(approval_for_first=True), True),
    ],
)
def test_an_approval_without_a_person_is_found_where_the_policy_asks_for_one(more, is_found):
    agent, service = make_agent(), make_service()
    decide(agent, service, "2")
    decide(agent, service, "3")

    have_asked(agent, more)

    assert (UNASKED in problems_of(agent)) is is_found


def test_only_the_first_payment_to_a_payee_needs_a_person():
    agent, service = make_agent(approval_for_first=True), make_service()
    approve(decide(agent, service, "2"))
    decide(agent, service, "3")

    assert problems_of(agent) == []


@pytest.mark.parametrize("answer", HoldAnswer)
def test_what_was_answered_in_order_has_no_problem(answer):
    agent = make_agent(approval_above_day=Decimal(5))
    held = decide(agent, make_service(), "6")
    say(held, answer)

    assert problems_of(agent) == []


def test_an_end_that_pays_another_recipient_than_was_held_is_noticed(asked):
    found = asked.problems_after(
        "UPDATE ledger_logentry SET explanation_json = replace(explanation_json, %s, %s) WHERE id = %s",
        asked.service.address, "0x" + "9" * 40, asked.approved.id,
    )  # fmt: skip

    assert [one for one in found if "pays another recipient than was held" in one]
