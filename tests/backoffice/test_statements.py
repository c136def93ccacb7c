"""A month's statement per agent and per payee. Source: issue 15, clause 5."""

import csv
import io
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.contrib.admin.utils import quote
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from backoffice.statements import Month, list_months, state_agent, state_payee
from foundation.kernel.times import utc_now
from ledger.models import BalanceMovement
from ledger.operations import adjust_balance, withdraw_funds
from payments.lifecycle import SettlementState
from payments.models import Payment, Settlement
from payments.settling.state_changes import StateChange
from payments.settling.transitions import fail, settle
from policy.models import Agent
from services.models import Service
from staff.models import AuditEntry
from tests.support.factories import decide, make_agent, make_service
from tests.support.histories import tamper
from tests.support.scenes import row_of

NOW = utc_now()
THIS = Month.of(NOW.year, NOW.month)
BEFORE = Month.of((THIS.begin - timedelta(days=1)).year, (THIS.begin - timedelta(days=1)).month)


def address_of(kind, pk):
    return reverse(f"backoffice:{kind}_statement", args=[quote(pk)])


def text_of(response):
    assert response.status_code == 200, response.content
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode()))


def rows_of(response):
    text = b"".join(response.streaming_content).decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def lively(db):
    """An agent of whom everything happened, last month and this: its payments, by what became of them."""
    agent, service = make_agent(balance="0"), make_service()
    BalanceMovement.objects.create(
        agent=agent, kind="funding", amount=100, balance_after=100, author="x", created_at=BEFORE.begin
    )
    Agent.objects.filter(pk=agent.pk).update(balance=100, created_at=BEFORE.begin)
    agent.refresh_from_db()
    for days, amount in ((1, "1.25"), (2, "2")):
        decide(agent, service, amount, at=BEFORE.begin + timedelta(days=days))
    entries = [decide(agent, service, amount) for amount in ("3", "4.5", "0.25")]
    settle([StateChange(row_of(Settlement.objects.get(payments=entries[0].payment_id)), SettlementState.FINAL)])
    fail(Payment.objects.get(pk=entries[1].payment_id), reason="It failed.")
    withdraw_funds(agent.id, amount=Decimal(10), by="fiona", reason="R", chain="eip155:31337")
    adjust_balance(agent.id, amount=Decimal("-0.5"), by="fiona", reason="R", chain="eip155:31337")
    agent.refresh_from_db()
    return agent, service


def test_a_statement_opens_where_the_month_before_closed_and_ends_at_the_balance(lively, api):
    agent, _ = lively

    last, this = (state_agent(agent, month, NOW) for month in (BEFORE, THIS))

    assert (last.opening, last.closing, this.opening) == (Decimal(0), Decimal("96.75"), Decimal("96.75"))
    assert {one.words: (one.count, one.total) for one in this.sums} == {
        "Paid": (3, Decimal("-7.75")),
        "Given back, as payments failed": (1, Decimal("4.5")),
        "Withdrawn": (1, Decimal(-10)),
        "Adjusted": (1, Decimal("-0.5")),
    }
    budget = api.get(f"/v1/agents/{agent.id}/budget").json()
    assert this.closing == Decimal(budget["balance"]) == Decimal(83)
    assert (last.problem, this.problem) == ("", "")


def test_sums_are_those_of_the_api(lively, api):
    agent, service = lively
    entries = api.get("/v1/logs", {"agentId": agent.id, "result": "approved"}).json()["data"]
    within = [one for one in entries if one["createdAt"] >= f"{THIS}"]
    states = [api.get(f"/v1/payments/{one['paymentId']}").json() for one in within]

    paid = sum(Decimal(one["amount"]) for one in within)
    by_status = {status: sum(Decimal(one["amount"]) for one in states if one["status"] == status)
                 for status in ("settled", "approved", "failed")}  # fmt: skip
    of_agent, of_payee = state_agent(agent, THIS, NOW), state_payee(service, THIS)

    assert next(one.total for one in of_agent.sums if one.words == "Paid") == -paid
    assert {one.words: one.total for one in of_payee.sums} == {
        "Settled": by_status["settled"], "On its way": by_status["approved"],
        "Failed and given back": by_status["failed"],
    }  # fmt: skip


def test_the_page_shows_every_movement_and_that_it_equals_the_ledger(finance, lively):
    agent, service = lively

    text = text_of(finance.client.get(address_of("agent", agent.pk)))

    assert "✓ Equal to the ledger" in text
    assert "Opening balance 96.75" in text
    assert "Balance now 83.00" in text
    for movement in BalanceMovement.objects.filter(agent=agent, created_at__gte=THIS.begin):
        assert movement.payment_id is None or movement.payment_id in text
    assert text.count(service.pk) == 4


def test_movements_that_do_not_add_up_are_called_out(finance, lively):
    agent, _ = lively
    tamper("UPDATE ledger_balancemovement SET amount = -11 WHERE kind = 'withdrawal' AND agent_id = %s", agent.pk)

    assert "✗ NOT EQUAL TO THE LEDGER" in text_of(finance.client.get(address_of("agent", agent.pk)))


def test_a_balance_that_is_not_the_ledgers_is_called_out(finance, lively):
    agent, _ = lively
    tamper("UPDATE policy_agent SET balance = 84 WHERE id = %s", agent.pk)

    assert "✗ NOT EQUAL TO THE LEDGER" in text_of(finance.client.get(address_of("agent", agent.pk)))


def test_a_clock_that_went_back_loses_no_movement(lively):
    """A movement dated last month behind one of this month is counted once, and the balances stay in line."""
    agent, _ = lively
    first = BalanceMovement.objects.filter(agent=agent, created_at__gte=THIS.begin).earliest("id")
    tamper("UPDATE ledger_balancemovement SET created_at = %s WHERE id = %s", BEFORE.begin, first.id + 2)

    last, this = (state_agent(agent, month, NOW) for month in (BEFORE, THIS))

    assert last.count + this.count == BalanceMovement.objects.filter(agent=agent).count()
    assert last.closing == this.opening
    assert not last.problem + this.problem


def test_an_agent_without_movements_has_an_empty_statement(finance, db):
    agent = make_agent(balance="0")

    text = text_of(finance.client.get(address_of("agent", agent.pk)))

    assert "Opening balance 0.00" in text
    assert "Nothing moved." in text


def test_the_csv_of_an_agent_adds_up(finance, lively):
    agent, _ = lively

    rows = rows_of(finance.client.get(address_of("agent", agent.pk), {"month": str(THIS), "format": "csv"}))

    assert (rows[0]["entry"], rows[0]["balanceAfter"]) == ("opening balance", "96.75")
    assert (rows[-1]["entry"], rows[-1]["balanceAfter"]) == ("closing balance", "83.00")
    moved = sum(Decimal(row["amount"]) for row in rows if row["amount"] and not row["entry"].startswith("sum:"))
    assert Decimal("96.75") + moved == 83
    entry = AuditEntry.objects.latest("id")
    assert entry.after is not None
    assert (entry.action, entry.author, entry.after["filter month"]) == ("export.made", finance.name, str(THIS))


def test_the_csv_of_a_payee_has_its_payments_and_sums(finance, lively):
    _, service = lively

    rows = rows_of(finance.client.get(address_of("payee", service.pk), {"month": str(THIS), "format": "csv"}))

    assert [row["entry"] for row in rows[:3]] == ["settled", "failed", "approved"]
    assert rows[0]["tx"] == Settlement.objects.get(state="final", payments__service=service).tx
    assert rows[0]["escrowId"] == Payment.objects.get(pk=rows[0]["paymentId"]).escrow_id
    assert list(rows[0])[-1] == "escrowId"
    assert {row["entry"]: row["amount"] for row in rows[3:]} == {
        "sum: Settled": "3.00", "sum: On its way": "0.25", "sum: Failed and given back": "4.50",
    }  # fmt: skip


def test_the_page_of_a_payee_shows_what_became_of_each_payment(finance, lively):
    _, service = lively

    text = text_of(finance.client.get(address_of("payee", service.pk)))

    for shown in ("Settled 1 3.00 USDC", "On its way 1 0.25 USDC", "Failed and given back 1 4.50 USDC", "It failed."):
        assert shown in text


def test_an_id_may_hold_what_addresses_are_made_of(finance, db):
    odd = 'a/b:c d"e\r\nf_5F'
    Agent.objects.create(id=odd, asset="USDC", created_at=NOW)

    response = finance.client.get(address_of("agent", odd), {"format": "csv"})

    assert response.status_code == 200
    assert 'filename="statement-a_b_c_d_e' in response["Content-Disposition"]


@pytest.mark.parametrize("month", ["2026-13", "2026-00", "26-01", "1999-01", "x", "2026-1"])
def test_what_is_no_month_is_a_bad_request(finance, lively, month):
    assert finance.client.get(address_of("agent", lively[0].pk), {"month": month}).status_code == 400


@pytest.mark.parametrize("kind", ["agent", "payee"])
def test_who_may_not_see_movements_or_payments_gets_no_statement(make_person, lively, kind):
    pk = lively[kind == "payee"].pk

    assert make_person().client.get(address_of(kind, pk)).status_code == 403
    assert make_person(is_superuser=True).client.get(address_of(kind, "nobody")).status_code == 404


def test_months_are_listed_over_the_turn_of_a_year():
    months = list_months(datetime(2025, 11, 30, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC))

    assert [str(month) for month in months] == ["2026-02", "2026-01", "2025-12", "2025-11"]


@pytest.mark.parametrize("kind", ["agent", "payee"])
def test_a_statement_takes_as_many_queries_however_long_it_is(finance, lively, kind):
    agent, service = lively
    page = address_of(kind, lively[kind == "payee"].pk)
    finance.client.get(page)
    with CaptureQueriesContext(connection) as few:
        finance.client.get(page)
    for _ in range(5):
        decide(Agent.objects.get(pk=agent.pk), Service.objects.get(pk=service.pk), "0.1")
    with CaptureQueriesContext(connection) as many:
        finance.client.get(page)

    assert len(many) == len(few)
