"""One page per payment, one per decision, and the receipts. Source: issue 15, clause 4."""

import json
import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext

from foundation.kernel.errors import AgentPaused, BudgetExceeded
from foundation.kernel.times import utc_now
from ledger.models import BalanceMovement, LogEntry
from ledger.receipts import verify
from payments.lifecycle import SettlementState
from payments.models import Installation, Payment, Settlement
from payments.reconciling.verification import find_payment_problems
from payments.settling.state_changes import StateChange
from payments.settling.transitions import fail, settle
from policy.models import Agent
from policy.more_limits import NO_MORE
from policy.rules import SIGNER_RULE, find_rule, rules_in_force
from policy.signer import published_keys
from services.models import WebhookDelivery
from tests.support.factories import decide, make_agent, make_service
from tests.support.histories import tamper
from tests.support.scenes import row_of

OF_EVERY_POLICY = [rule.name for rule in (*rules_in_force(NO_MORE), SIGNER_RULE)]


@pytest.fixture
def entry(db):
    """An approved payment to a payee with a webhook."""
    return decide(make_agent(), make_service(webhook_url="https://hooks.example.com/"), "2.5")


def page_of(person, entry):
    response = person.get("payments_payment_change", entry.payment_id)
    assert response.status_code == 200, response.content
    return response.content.decode()


def words(html):
    """Return what is read on a page, without its tags."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def refuse(agent, service, amount, error=BudgetExceeded):
    with pytest.raises(error):
        decide(agent, service, amount)
    return LogEntry.objects.filter(agent=agent).latest("id")


def test_the_page_says_what_was_asked_and_every_rule_with_its_figures(auditor, entry):
    html = page_of(auditor, entry)
    text = words(html)

    for shown in (entry.agent_id, entry.service, entry.reason, entry.idempotency_key, entry.tx, entry.hash):
        assert shown in text
    positions = [text.index(find_rule(name).words.passed) for name in OF_EVERY_POLICY]
    assert positions == sorted(positions)
    assert text.count("✓ passed") == len(OF_EVERY_POLICY)
    assert "Limit 50.00 USDC Spent before 0.00 USDC This payment 2.50 USDC Left after 47.50 USDC" in text
    assert "Before 1,000.00 USDC This payment 2.50 USDC After 997.50 USDC" in text
    assert "✗" not in text
    assert "✓ Verified just now." in text
    assert '{"' not in text


def test_metadata_is_shown_in_words(auditor, api, agent, payment):
    answer = api.pay({**payment, "metadata": {"invoice": "INV-7", "order": {"lines": [1, True, None]}}}).json()

    text = words(auditor.get("payments_payment_change", answer["id"]).content.decode())

    for shown in ("invoice INV-7", "order: lines: 1 1", "order: lines: 2 yes", "order: lines: 3 none"):
        assert shown in text
    assert '{"' not in text


def test_the_page_shows_each_step_on_the_chain_and_each_webhook(auditor, entry):
    settlement = Settlement.objects.get(payments=entry.payment_id)
    settle([StateChange(row_of(settlement), SettlementState.FINAL, block_number=7)])
    decide(make_agent(), make_service(webhook_url="https://other.example/"), "1")

    html = page_of(auditor, entry)
    text = words(html)

    assert "Settled: the payee has the money" in text
    assert re.search(r"signed, not sent yet.*in a final block", text)
    assert re.search(r"The payment was approved waiting.*The payment was settled waiting", text)
    deliveries = WebhookDelivery.objects.filter(endpoint_id=entry.service)
    assert html.partition("<main")[2].count("/console/services/webhookdelivery/") == deliveries.count() == 2


def test_a_failed_payment_shows_that_its_money_came_back(auditor, entry):
    fail(Payment.objects.get(pk=entry.payment_id), reason="Nothing can pay it any more.")

    text = words(page_of(auditor, entry))

    assert "Failed: the money was given back" in text
    assert "money back 2.50 USDC 1,000.00 USDC Nothing can pay it any more." in text


def test_an_entry_that_does_not_verify_says_so_loudly(auditor, entry):
    tamper("UPDATE ledger_logentry SET amount = '250' WHERE id = %s", entry.id)

    for page in (page_of(auditor, entry), auditor.get("ledger_logentry_change", entry.id).content.decode()):
        text = words(page)
        assert "✗ Not verified." in text
        assert "The hash does not match the contents: a member was changed." in text
        assert "✓ Verified" not in text
    assert "✗ NOT VERIFIED" in words(auditor.get("ledger_logentry_receipt", entry.id).content.decode())


@pytest.mark.parametrize(
    ("column", "value"),
    [("explanation_json", "{"), ("explanation_json", "[]"), ("metadata_json", "{"), ("amount", "NaN")],
)
def test_what_somebody_made_unreadable_is_shown_as_not_verified(auditor, entry, column, value):
    statements = {
        "explanation_json": "UPDATE ledger_logentry SET explanation_json = %s WHERE id = %s",
        "metadata_json": "UPDATE ledger_logentry SET metadata_json = %s WHERE id = %s",
        "amount": "UPDATE ledger_logentry SET amount = %s WHERE id = %s",
    }
    tamper(statements[column], value, entry.id)

    assert "✗ Not verified." in words(page_of(auditor, entry))
    assert auditor.get("ledger_logentry_change", entry.id).status_code == 200
    assert auditor.get("ledger_logentry_receipt", entry.id).status_code == 200
    assert auditor.get("ledger_logentry_receipt.json", entry.id).status_code in {200, 404}


def test_a_payment_that_differs_from_its_entry_is_not_verified(auditor, entry):
    tamper("UPDATE payments_payment SET recipient = '0xsomebody' WHERE entry_id = %s", entry.id)

    assert "goes to another recipient than the entry says" in words(page_of(auditor, entry))


def test_the_page_and_the_receipt_say_in_one_line_what_the_chain_knows_the_payment_by(auditor, entry):
    known = Payment.objects.get(pk=entry.payment_id).escrow_id

    for html in (page_of(auditor, entry), auditor.get("ledger_logentry_receipt", entry.id).content.decode()):
        assert words(html).count(known) == 1
        assert f"On the chain it is known as {known} ." in words(html)


def test_a_payment_that_the_chain_knows_by_another_id_than_the_entry_says_is_not_verified(auditor, entry):
    tamper("UPDATE payments_payment SET escrow_id = id WHERE entry_id = %s", entry.id)

    assert f"knows the payment {entry.payment_id} by is not what the entry says" in words(page_of(auditor, entry))


def test_an_entry_of_before_which_does_not_say_what_the_chain_knows_the_payment_by_is_no_problem(auditor, entry):
    payment = Payment.objects.select_related("entry").get(pk=entry.payment_id)
    explanation = payment.entry.explanation
    del explanation["escrowId"]
    payment.entry.explanation_json = json.dumps(explanation)

    assert list(find_payment_problems(payment.entry, payment, bytes(Installation.objects.get().salt))) == []


def test_an_entry_that_does_not_continue_the_one_before_it_is_not_verified(auditor):
    agent, service = make_agent(), make_service()
    first, second = decide(agent, service, "1"), decide(agent, service, "1")
    assert "✓ Verified" in words(page_of(auditor, second))
    tamper("UPDATE ledger_logentry SET hash = repeat('0', 64) WHERE id = %s", first.id)

    text = words(auditor.get("ledger_logentry_change", second.id).content.decode())

    assert "The chain is broken" in text


def test_a_refusal_shows_each_rule_up_to_the_one_that_refused_and_since_when_it_fits(auditor):
    agent, service = make_agent(), make_service()
    began = utc_now() - timedelta(hours=3)
    for hour in range(5):
        decide(agent, service, "10", at=began + timedelta(minutes=hour))
    entry = refuse(agent, service, "4")

    text = words(auditor.get("ledger_logentry_change", entry.id).content.decode())

    assert "✗ refused Above the limit of 24 hours" in text
    assert "Limit 50.00 USDC Spent before 50.00 USDC Asked for 4.00 USDC Would have fitted 0.00 USDC" in text
    assert f"The same payment fits from {began + timedelta(hours=24):%Y-%m-%d %H:%M:%S} UTC" in text
    assert text.count("✓ passed") == OF_EVERY_POLICY.index("under_daily_limit")
    assert text.count("not needed") == len(OF_EVERY_POLICY) - OF_EVERY_POLICY.index("under_daily_limit") - 1
    assert "approved ✓" not in text


def test_a_refusal_that_waiting_does_not_help_says_so(auditor):
    agent, service = make_agent(), make_service()

    too_much = refuse(agent, service, "11")
    Agent.objects.filter(pk=agent.pk).update(status="paused")
    paused = refuse(agent, service, "1", AgentPaused)

    assert "Waiting does not help" in words(auditor.get("ledger_logentry_change", too_much.id).content.decode())
    text = words(auditor.get("ledger_logentry_change", paused.id).content.decode())
    assert "The agent is paused: all its payments fail closed." in text
    assert "Waiting does not help" not in text


def test_the_receipt_as_a_file_is_the_one_that_the_api_shows_and_verifies(auditor, api, entry):
    response = auditor.get("ledger_logentry_receipt.json", entry.id)

    receipt = json.loads(response.content)
    assert receipt in api.get("/v1/logs", {"agentId": entry.agent_id}).json()["data"]
    assert f'filename="{entry.id}.json"' in response["Content-Disposition"]
    verify(receipt, published_keys()["keys"])


def test_the_printable_receipt_has_a_mark_and_no_frame(auditor, entry):
    html = auditor.get("ledger_logentry_receipt", entry.id).content.decode()

    assert "✓ Verified on" in words(html)
    assert entry.signature in html
    assert "style=" not in html
    assert re.findall(r"<script(?![^>]*\bsrc=)[^>]*>", html) == []


@pytest.mark.parametrize("page", ["receipt", "receipt.json", "change"])
def test_who_may_not_see_the_log_sees_no_receipt(make_person, entry, page):
    person = make_person()

    assert person.get(f"ledger_logentry_{page}", entry.id).status_code == 403
    assert person.get("payments_payment_change", entry.payment_id).status_code == 403
    assert person.post(f"ledger_logentry_{page}", entry.id).status_code == 403


def test_who_may_see_payments_alone_sees_no_webhook_movement_or_receipt(make_person, entry):
    person = make_person(group=None)
    user = person.client.session["_auth_user_id"]
    Permission.objects.get(codename="view_payment").user_set.add(user)

    html = page_of(person, entry)

    for hidden in ("Webhooks", "Balance of the agent", "/console/ledger/", "/console/policy/", "/console/services/"):
        assert hidden not in html.partition("<h2>")[2]


def test_no_payment_and_no_entry_is_a_page_that_says_so(auditor):
    assert auditor.get("payments_payment_change", "pay_none").status_code == 404
    assert auditor.get("ledger_logentry_change", "log_none").status_code == 404


def test_the_page_takes_as_many_queries_however_much_there_is(auditor, entry):
    auditor.get("payments_payment_change", entry.payment_id)
    with CaptureQueriesContext(connection) as few:
        page_of(auditor, entry)
    agent, service = make_agent(), make_service(webhook_url="https://many.example/")
    entries = [decide(agent, service, "1") for _ in range(4)]
    settle(
        [StateChange(row_of(Settlement.objects.get(payments=one.payment_id)), SettlementState.FINAL) for one in entries]
    )
    with CaptureQueriesContext(connection) as many:
        page_of(auditor, entries[-1])

    assert len(many) == len(few)
    assert BalanceMovement.objects.filter(agent=agent).count() > 4


def test_a_refusal_by_a_rule_of_another_release_is_shown_by_its_name(auditor):
    entry = refuse(make_agent(), make_service(), "11")
    tamper("UPDATE ledger_logentry SET rule = 'under_a_full_moon' WHERE id = %s", entry.id)

    for page in (auditor.get("ledger_logentry_changelist"), auditor.get("ledger_logentry_change", entry.id)):
        assert "under_a_full_moon" in page.content.decode()
