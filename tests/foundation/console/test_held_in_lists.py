"""Payments that a person has to approve in the console's lists: their own, the log, payments, agents."""

import csv
import io
import re
from datetime import timedelta

import pytest

from foundation.kernel.times import utc_now
from ledger.models import Hold, HoldAnswer, LogEntry
from payments.holding.answering import answer_hold
from policy.operations import pause_agent
from tests.foundation.console.test_holds import LIST, hold_payment, page_of
from tests.foundation.console.test_payment_page import words
from tests.support.factories import decide, make_service
from tests.support.holds import asks_above, end, finish

pytestmark = pytest.mark.usefixtures("db")


@pytest.fixture
def hold():
    return hold_payment()


def listed(person, **query):
    """Read the ids of a list, in its order."""
    html = person.get(LIST, **query).content.decode()
    return re.findall(r'<th class="field-id"><a href="[^"]*">(pay_\w+)</a>', html)


# --- The list ---------------------------------------------------------------------------------------------------------
def test_those_that_wait_stand_first_and_the_first_to_expire_on_top(auditor):
    ended, late, soon = hold_payment(), hold_payment(), hold_payment()
    end(ended.entry, HoldAnswer.DECLINE)
    Hold.objects.filter(pk=soon.pk).update(expires_at=late.expires_at - timedelta(hours=1))

    assert listed(auditor) == [soon.pk, late.pk, ended.pk]


def test_the_list_is_filtered_by_what_became_of_them_agent_and_payee(auditor):
    waits, approved, declined, expired, refused = (hold_payment() for _ in range(5))
    end(approved.entry, HoldAnswer.APPROVE)
    end(declined.entry, HoldAnswer.DECLINE)
    finish(expired.entry, expired.expires_at)
    pause_agent(refused.agent_id, by="kim")
    finish(refused.entry)

    for state, hold in (
        ("waits", waits), ("approved", approved), ("declined", declined), ("expired", expired), ("refused", refused),
    ):  # fmt: skip
        assert listed(auditor, state=state) == [hold.pk]
        assert f'<span class="badge {state}">' in page_of(auditor, hold)
    assert listed(auditor, agent=declined.agent_id) == listed(auditor, payee=declined.service) == [declined.pk]


def test_the_list_is_summed_up_and_exported(auditor, hold):
    end(hold_payment("7").entry, HoldAnswer.DECLINE)

    sums = words(auditor.get(LIST, asset="USDC").content.decode())
    assert "USDC not approved 1 7.00" in sums
    assert "USDC waits for approval 1 6.00" in sums
    exported = b"".join(auditor.get(LIST, export="csv").streaming_content).decode("utf-8-sig")
    rows = {row["id"]: row for row in csv.DictReader(io.StringIO(exported))}
    assert [row["state"] for row in rows.values()] == ["waits", "declined"]
    assert rows[hold.pk]["rule"] == "under_approval_limit"
    assert [row["answerReason"] for row in rows.values()] == ["", "It is needed."]


# --- Elsewhere --------------------------------------------------------------------------------------------------------
def test_the_log_says_that_it_is_held_and_counts_it_as_no_refusal(auditor, hold):
    page = auditor.get("ledger_logentry_changelist", agent=hold.agent_id).content.decode()
    assert '<span class="badge held">○ held</span>' in page
    assert "USDC held for approval 1 6.00" in words(page)
    assert "✗ refused" not in page

    text = words(auditor.get("ledger_logentry_change", hold.entry_id).content.decode())
    assert "○ held for approval Above what is paid without approval" in text
    assert "✗ refused" not in text
    receipt = auditor.client.get(f"/console/ledger/logentry/{hold.entry_id}/receipt").content.decode()
    assert "held for approval" in receipt
    assert hold.entry_id in auditor.get("ledger_logentry_changelist", result__exact="held").content.decode()


def test_the_agent_says_what_waits_beside_its_balance(auditor, hold):
    text = words(auditor.get("policy_agent_change", hold.agent_id).content.decode())
    assert "994.00 USDC 6.00 USDC more wait for approval" in text

    assert "994.00 6.00 more wait" in words(auditor.get("policy_agent_changelist").content.decode())


def test_an_agent_whose_limit_is_held_is_near_it(auditor):
    hold = hold_payment("9", agent=asks_above(daily_limit="10"))

    assert hold.agent_id in auditor.get("policy_agent_changelist", need="limit").content.decode()


def test_an_approved_one_is_listed_on_the_day_of_its_approval_and_exported_with_its_key(auditor):
    asked = utc_now() - timedelta(days=2)
    hold = hold_payment(agent=asks_above(approval_hours=72), at=asked)
    end(hold.entry, HoldAnswer.APPROVE)
    payments, today = "payments_payment_changelist", f"{utc_now():%Y-%m-%d}"

    assert hold.pk in auditor.get(payments, since=today, until=today).content.decode()
    assert hold.pk not in auditor.get(payments, since=f"{asked:%Y-%m-%d}", until=f"{asked:%Y-%m-%d}").content.decode()
    exported = b"".join(auditor.get(payments, export="csv").streaming_content).decode()
    assert f"{hold.entry.idempotency_key}" in exported


def test_the_navigation_leads_to_the_list_for_everybody(auditor):
    assert "/console/ledger/hold/" in auditor.get("index").content.decode()


def test_answers_are_counted_as_one_decision_each(hold):
    end(hold.entry, HoldAnswer.APPROVE)
    answered = LogEntry.objects.filter(agent=hold.agent_id)

    assert sorted(answered.values_list("result", flat=True)) == ["approved", "held"]
    with pytest.raises(Exception, match="already"):
        answer_hold(hold.pk, HoldAnswer.DECLINE, by="kim", reason="R")
    assert decide(hold.agent, make_service()).result == "approved"
