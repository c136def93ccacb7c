"""Lists: filters, sums of what is filtered, exports. Source: issue 15, clause 5."""

import csv
import io
import json
import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from foundation.kernel.assets import Asset
from foundation.kernel.errors import BudgetExceeded
from foundation.kernel.times import utc_now
from ledger.models import BalanceMovement, LogEntry
from ledger.operations import withdraw_funds
from ledger.receipts import verify
from payments.models import Payment, Settlement
from payments.settling.transitions import fail
from policy.models import Agent
from policy.signer import published_keys
from staff import lists
from staff.models import AuditEntry
from tests.support.factories import decide, make_agent, make_service
from tests.support.histories import tamper

LISTS = {
    "ledger_logentry": LogEntry,
    "ledger_balancemovement": BalanceMovement,
    "payments_payment": Payment,
    "payments_settlement": Settlement,
}
ALL = [*LISTS, "payments_deposit", "payments_withdrawal", "payments_outflow"]
TODAY = utc_now().date()
LONG_AGO = utc_now() - timedelta(days=20)


@pytest.fixture
def story(db):
    """An agent that paid two payees, one of them long ago, and was refused once; another agent paid, too."""
    agent, service, other = make_agent(balance="0"), make_service(), make_service()
    BalanceMovement.objects.create(
        agent=agent,
        kind="funding",
        amount=1000,
        balance_after=1000,
        author="x",
        created_at=LONG_AGO - timedelta(days=2),
    )
    Agent.objects.filter(pk=agent.pk).update(balance=1000)
    decide(agent, other, "3", at=LONG_AGO)
    decide(agent, service, "1.5")
    decide(agent, service, "2.25")
    with pytest.raises(BudgetExceeded):
        decide(agent, service, "11")
    decide(make_agent(), other, "4")
    return agent, service, other


def rows_of(response):
    assert response.status_code == 200, response.content
    return [json.loads(line) for line in b"".join(response.streaming_content).decode().splitlines()]


def ids_of(auditor, model, **query):
    """Return the first column's ids of what a list's export holds."""
    name = {"payments_settlement": "tx"}.get(model, "id")
    return {row[name] for row in rows_of(auditor.get(f"{model}_changelist", export="jsonl", **query))}


def text_of(response):
    assert response.status_code == 200, response.content
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode().partition("<main")[2]))


@pytest.mark.parametrize("model", [one for one in ALL if one != "ledger_logentry"])
def test_every_list_has_one_form_of_filters_and_the_exports(auditor, story, model):
    html = auditor.get(f"{model}_changelist", chain="eip155:31337").content.decode()

    assert html.count('class="filters"') == 1
    for label in re.findall(r'<label for="(filter-[^"]+)"', html):
        assert f'id="{label}"' in html
    assert re.findall(r'href="([^"]*export=csv[^"]*)"', html)[0].startswith("?")


@pytest.mark.parametrize("model", LISTS)
def test_a_list_is_filtered_by_agent(auditor, story, model):
    agent, _, _ = story
    rows = LISTS[model]._default_manager
    expected = rows.filter(payments__agent=agent) if model == "payments_settlement" else rows.filter(agent=agent)

    assert ids_of(auditor, model, agent=agent.pk) == set(expected.values_list("pk", flat=True))
    assert ids_of(auditor, model, agent="nobody") == set()
    assert ids_of(auditor, model, agent=agent.pk[3:]) == ids_of(auditor, model, agent=agent.pk)


@pytest.mark.parametrize("model", LISTS)
def test_a_list_is_filtered_by_days_both_included(auditor, story, model):
    agent, _, _ = story
    then = str(LONG_AGO.date())
    everything = ids_of(auditor, model, agent=agent.pk)

    old = ids_of(auditor, model, agent=agent.pk, since=then, until=then)
    new = ids_of(auditor, model, agent=agent.pk, since=str(LONG_AGO.date() + timedelta(days=1)))

    assert len(old) == 1
    earlier = ids_of(auditor, model, agent=agent.pk, until=str(LONG_AGO.date() - timedelta(days=1)))
    assert old | new | earlier == everything
    assert len(old) + len(new) + len(earlier) == len(everything)


@pytest.mark.parametrize("day", ["yesterday", "2026-02-30", "9999-12-31", "2026-1"])
def test_a_day_that_is_none_shows_nothing_rather_than_everything(auditor, story, day):
    assert ids_of(auditor, "payments_payment", since=day) in (
        set(),
        ids_of(auditor, "payments_payment", since="2026-01-01"),
    )
    assert ids_of(auditor, "payments_payment", until="x") == set()


def test_payments_are_filtered_by_payee_asset_chain_and_status(auditor, story):
    agent, service, other = story
    fail(Payment.objects.filter(agent=agent, service=service).latest("pk"), reason="R")
    euro = decide(make_agent(asset=Asset.EURC), make_service(asset=Asset.EURC), "1")

    assert len(ids_of(auditor, "payments_payment", payee=service.pk)) == 2
    assert len(ids_of(auditor, "payments_payment", payee=service.pk, status__exact="failed")) == 1
    assert euro.payment_id in ids_of(auditor, "payments_payment", asset="EURC", chain="eip155:31337")
    assert euro.payment_id not in ids_of(auditor, "payments_payment", asset="USDC")
    assert ids_of(auditor, "payments_payment", chain="eip155:1", payee=other.pk) == set()


def test_fields_of_the_form_that_are_left_empty_filter_nothing(auditor, story):
    agent, _, _ = story
    empty = {"since": "", "until": "", "payee": "", "asset": "", "chain": "", "status__exact": ""}

    assert len(ids_of(auditor, "payments_payment", agent=agent.pk, **empty)) == 3
    assert "on" not in text_of(auditor.get("payments_payment_changelist", **empty)).partition("Filters")[2][:6]


def test_refusals_are_filtered_by_their_rule_and_read_unlike_approvals(auditor, story):
    agent, _, _ = story

    text = text_of(auditor.get("ledger_logentry_changelist", agent=agent.pk))
    refused = ids_of(auditor, "ledger_logentry", agent=agent.pk, rule="under_max_payment")

    assert refused == set(LogEntry.objects.filter(agent=agent, result="blocked").values_list("pk", flat=True))
    assert text.count("✓ approved Every rule passed") == 3
    assert text.count("✗ refused Above the limit per payment") == 1


def test_what_is_filtered_is_summed_up_by_asset_and_state(auditor, story):
    agent, service, _ = story

    payments = text_of(auditor.get("payments_payment_changelist", agent=agent.pk))
    entries = text_of(auditor.get("ledger_logentry_changelist", agent=agent.pk))
    movements = text_of(auditor.get("ledger_balancemovement_changelist", agent=agent.pk))

    assert "USDC approved, on its way 3 6.75" in payments
    assert "USDC approved 3 6.75 USDC refused 1 11.00" in entries
    assert "USDC funding 1 1,000.00 USDC payment 3 -6.75" in movements
    assert "Sums of what is filtered" not in text_of(auditor.get("payments_payment_changelist"))
    assert "USDC approved, on its way 2 3.75" in text_of(
        auditor.get("payments_payment_changelist", q=agent.pk, payee=service.pk)
    )


def test_sums_of_too_many_rows_say_that_there_is_more(auditor, story, monkeypatch):
    monkeypatch.setattr(lists, "MOST_SUMMED", 2)

    text = text_of(auditor.get("payments_payment_changelist", agent=story[0].pk))

    assert "More than these: only the newest 2 rows were added up." in text


def test_an_amount_that_somebody_made_unreadable_spoils_the_sums_and_not_the_page(auditor, story):
    agent, _, _ = story
    tamper("UPDATE ledger_logentry SET amount = 'much' WHERE agent_id = %s", agent.pk)

    text = text_of(auditor.get("ledger_logentry_changelist", agent=agent.pk))

    assert "much" in text
    assert "Sums of what is filtered" not in text


def test_exported_entries_are_receipts_that_verify(auditor, api, story):
    agent, _, _ = story

    rows = rows_of(auditor.get("ledger_logentry_changelist", export="jsonl", agent=agent.pk))

    for row in rows:
        verify(row, published_keys()["keys"])
    assert rows[::-1] == api.get("/v1/logs", {"agentId": agent.id}).json()["data"]


def test_exported_payments_sum_up_to_what_the_api_says_was_spent(auditor, api, story):
    agent, _, _ = story

    response = auditor.get(
        "payments_payment_changelist", export="csv", agent=agent.pk, since=str(TODAY - timedelta(days=1))
    )
    text = b"".join(response.streaming_content).decode("utf-8-sig")
    spent = sum(Decimal(row["amount"]) for row in csv.DictReader(io.StringIO(text)))

    assert spent == Decimal(api.get(f"/v1/agents/{agent.id}/budget").json()["spentToday"])


def test_an_export_is_recorded_with_its_filters(auditor, story):
    auditor.get("payments_payment_changelist", export="csv", agent=story[0].pk, asset="")

    entry = AuditEntry.objects.latest("id")
    assert (entry.action, entry.author, entry.subject) == ("export.made", auditor.name, "payments")
    assert entry.after == {"format": "csv", "filter agent": story[0].pk}


@pytest.mark.parametrize("model", ALL)
def test_who_may_not_see_a_list_exports_nothing(make_person, story, model):
    person = make_person()

    assert person.get(f"{model}_changelist", export="csv").status_code == 403
    assert not AuditEntry.objects.filter(author=person.name, action="export.made").exists()


def test_there_is_no_other_format(auditor, story):
    assert auditor.get("payments_payment_changelist", export="xlsx").status_code == 400


def test_an_export_of_a_withdrawal_has_its_agent(auditor, story):
    agent, _, _ = story
    withdraw_funds(agent.id, amount=Decimal(5), by="fiona", reason="R", chain="eip155:31337")

    kinds = {row["kind"]: row["amount"] for row in rows_of(
        auditor.get("ledger_balancemovement_changelist", export="jsonl", agent=agent.pk, kind__exact="withdrawal")
    )}  # fmt: skip

    assert kinds == {"withdrawal": "-5.00"}


def test_transactions_that_only_fill_a_nonce_are_listed_apart(auditor, story):
    paying = Settlement.objects.filter(payments__agent=story[0]).earliest("tx")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE payments_settlement SET payment_id = NULL WHERE tx = %s", [paying.tx])

    assert paying.tx not in ids_of(auditor, "payments_settlement")
    assert paying.tx in ids_of(auditor, "payments_settlement", purpose="nonce")
    assert paying.tx in ids_of(auditor, "payments_settlement", q=paying.tx)


@pytest.mark.parametrize("model", LISTS)
def test_a_list_takes_as_many_queries_however_long_it_is(auditor, story, model):
    agent, service, _ = story
    auditor.get(f"{model}_changelist", agent=agent.pk)
    with CaptureQueriesContext(connection) as few:
        auditor.get(f"{model}_changelist", agent=agent.pk)
    for _ in range(6):
        decide(agent, service, "0.1")
    with CaptureQueriesContext(connection) as many:
        auditor.get(f"{model}_changelist", agent=agent.pk)

    assert len(many) == len(few)


@pytest.mark.parametrize(
    ("query", "period"),
    [
        ({"since": "2026-11-01", "until": "2026-11-30"}, "2026-11-01-to-2026-11-30"),
        ({"since": "2026-11-01"}, f"2026-11-01-to-{TODAY}"),
        ({"until": "2026-11-30"}, "beginning-to-2026-11-30"),
        ({"since": '1"; x'}, str(TODAY)),
        ({}, str(TODAY)),
    ],
)
def test_the_name_of_an_exported_file_has_the_period(auditor, story, query, period):
    response = auditor.get("payments_payment_changelist", export="csv", **query)

    assert response["Content-Disposition"] == f'attachment; filename="payments-{period}.csv"'


def test_exported_payments_have_what_the_agent_said_of_them(auditor, story):
    for row in rows_of(auditor.get("payments_payment_changelist", export="jsonl")):
        entry = Payment.objects.get(pk=row["id"]).entry
        assert (row["reason"], row["idempotencyKey"], row["metadata"]) == (
            entry.reason, entry.idempotency_key, entry.metadata,
        )  # fmt: skip
        assert row["reason"]
        assert row["idempotencyKey"]


def test_the_page_of_a_payee_leads_to_its_statement(auditor, story):
    _, service, _ = story
    page = auditor.get("services_service_change", service.pk).content.decode()

    (link,) = re.findall(r'href="(/console/statements/payee/[^"]+)"', page)
    assert auditor.client.get(link).status_code == 200
