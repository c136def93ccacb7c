"""What decisions say of the agents above the payer: on their pages, in the lists, on the pages of what is held."""

import json
from decimal import Decimal

import pytest

from ledger.judgements import tell
from ledger.models import Hold
from tests.foundation.console.conftest import address
from tests.foundation.console.test_trees import PAGE, refusal_of, text_of
from tests.support.factories import decide, make_agent, make_service
from tests.support.holds import end
from tests.support.trees import make_child, make_path

ENTRY, ENTRIES = "ledger_logentry_change", "ledger_logentry_changelist"
HOLD = "ledger_hold_change"


def test_a_refusal_by_a_level_says_whose_limit_it_was_and_leads_there(auditor):
    parent = make_agent(daily_limit="5")
    child = make_child(parent)
    entry = refusal_of(child, make_service(), "6")

    page = auditor.get(ENTRY, entry.pk)

    assert f"Budget of {parent.pk} , above the agent The daily limit is 5.00 USDC" in text_of(page)
    assert f'<a href="{address(PAGE, parent.pk)}">{parent.pk}</a>' in page.content.decode()
    for one in (auditor.get(ENTRIES, agent=child.pk), auditor.get(PAGE, child.pk)):
        assert f"Above the limit of 24 hours (budget of {parent.pk})" in text_of(one)
    assert parent.pk in text_of(auditor.get("ledger_logentry_receipt", entry.pk))


def test_a_refusal_by_the_agents_own_limit_names_nobody_above(auditor):
    child = make_child(make_agent(), daily_limit="5")

    assert "Budget of" not in text_of(auditor.get(ENTRY, refusal_of(child, make_service(), "6").pk))


def test_an_approval_tells_what_each_level_compared(auditor):
    root, parent, child = make_path(3, daily_limit="20")
    service = make_service()
    decide(parent, service, "4")
    entry = decide(child, service, "3")

    for page in (auditor.get(ENTRY, entry.pk), auditor.get("payments_payment_change", entry.payment_id)):
        text = text_of(page)
        of_parent = text[text.index(f"Above the agent: {parent.pk} , polrev_1") :]
        of_root = of_parent[of_parent.index(f"Above the agent: {root.pk} , polrev_1") :]
        assert "Spent before 4.00 USDC" in of_parent
        assert "Within the limit of 24 hours" in of_root
        assert "The balance covers it" not in of_parent
        assert f'href="{address(PAGE, root.pk)}"' in page.content.decode()


def test_a_page_of_what_a_level_holds_says_whose_rule_it_is_and_what_is_left_above(finance):
    parent = make_agent(approval_above=Decimal(5))
    child = make_child(parent)
    held = decide(child, make_service(), "6")
    hold = Hold.objects.get(entry=held)

    text = text_of(finance.get(HOLD, hold.pk))

    assert f"A person is asked by the policy of {parent.pk} , above the agent." in text
    assert f"Budget of {parent.pk} , above the agent" in text
    assert "What is left above the agent" in text
    assert "6.00 of 50.00 (12%) 44.00 left" in text
    final = end(held)
    after = text_of(finance.get(ENTRY, final.pk))
    assert f"Above the agent: {parent.pk}" in after
    assert "Budget of" not in after


@pytest.mark.parametrize("levels", ['"x"', "[1]", '[{"agentId":1}]', '[{"agentId":"gone","spentToday":[]}]'])
def test_levels_that_somebody_made_unreadable_are_left_out(db, levels):
    entry = decide(make_child(make_agent()), make_service())
    entry.explanation_json = json.dumps({**entry.explanation, "levels": json.loads(levels), "level": 7})

    told = tell(entry)

    assert told.level is None
    assert [one.agent for one in told.levels] == (["gone"] if "gone" in levels else [])
