"""Pause and resume agents, and see what they may spend."""

import pytest

from staff.models import AuditEntry
from tests.foundation.console.conftest import Person, recorded
from tests.support.factories import decide, make_agent, make_service

AGENT = "policy_agent"


def test_finance_pauses_and_resumes_agents(finance):
    agents = [make_agent(), make_agent()]
    ids = sorted(agent.id for agent in agents)

    assert finance.act(AGENT, "pause", *ids, reason="Ticket 7") == [f"Paused {agent_id}." for agent_id in ids]
    for agent in agents:
        agent.refresh_from_db()
        assert agent.status == "paused"

    assert finance.act(AGENT, "resume", ids[0], reason="Ticket 7") == [f"Resumed {ids[0]}."]


def test_a_payment_of_an_agent_that_the_console_paused_is_refused(finance, api, agent, payment):
    finance.act(AGENT, "pause", agent.id, reason="Ticket 7")
    assert api.pay(payment).json()["error"]["code"] == "agent_paused"

    finance.act(AGENT, "resume", agent.id, reason="Ticket 7")
    assert api.pay(payment).status_code == 201


def test_a_pause_is_kept_with_its_author_and_reason_in_the_audit(finance, agent):
    finance.act(AGENT, "pause", agent.id, reason="Ticket 7")

    assert recorded(agent.id)[-1] == ("agent.paused", finance.name)
    assert AuditEntry.objects.get(subject=agent.id, action="agent.paused").reason == "Ticket 7"


@pytest.mark.parametrize("action", ["pause", "resume"])
@pytest.mark.parametrize("reason", [{}, {"reason": " "}])
def test_without_a_reason_it_is_asked_for_and_nothing_happens(finance, agent, action, reason):
    page = finance.try_to_act(AGENT, action, agent.id, **reason)

    agent.refresh_from_db()
    assert (page.status_code, agent.status) == (200, "active")
    assert 'name="reason"' in page.content.decode()


def test_the_list_shows_balance_spend_and_limits(auditor: Person):
    agent, service = make_agent(daily_limit="51.5", weekly_limit="103", max_per_payment="11"), make_service()
    decide(agent, service, "7.250000")

    page = auditor.get(f"{AGENT}_changelist", q=agent.id).content.decode()

    for shown in ("992.75", "7.25 of 51.50 (14%)", "7.25 of 103.00 (7%)", "more than a year", "11.00", "1"):
        assert f">{shown}</" in page


def test_the_page_of_an_agent_shows_its_newest_revisions_and_movements_only(auditor: Person):
    agent, service = make_agent(), make_service()
    for _ in range(25):
        decide(agent, service, "0.01")

    page = auditor.get(f"{AGENT}_change", agent.id).content.decode()

    assert page.count(">-0.01</td>") == 20
    assert "funding" not in page
    assert "Policy, revision 1" in page
