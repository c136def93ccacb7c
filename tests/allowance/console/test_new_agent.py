"""Make an agent in the console."""

import pytest
from django.contrib.auth.models import Permission, User
from django.urls import reverse

from policy.models import Agent, PolicyRevision
from staff.models import AuditEntry
from tests.support.factories import make_agent, make_service, new_name

AGENT = "policy_agent"


@pytest.fixture
def maker(make_person):
    """Somebody who sees agents and makes them."""
    person = make_person()
    codenames = ("view_agent", "add_agent")
    user = User.objects.get(username=person.name)
    user.user_permissions.add(*Permission.objects.filter(content_type__app_label="policy", codename__in=codenames))
    return person


def form(**changes):
    filled = {
        "id": new_name("agent"), "asset": "USDC", "max_per_payment": "10", "daily_limit": "50", "weekly_limit": "1,000",
        "allows": "all", "reason": "Ticket 7",
    }  # fmt: skip
    return {**filled, **changes}


def test_finance_makes_an_agent_with_its_limits(maker):
    sent = form(id=f"{new_name('team')}/agent 7?")

    response = maker.post(f"{AGENT}_add", **sent)

    agent = Agent.objects.get(pk=sent["id"])
    assert response.status_code == 302
    assert "Made " in maker.client.get(response["Location"]).content.decode()
    first = PolicyRevision.objects.get(agent=agent)
    assert (agent.asset, agent.balance, first.max_per_payment, first.daily_limit, first.weekly_limit) == (
        "USDC", 0, 10, 50, 1000
    )  # fmt: skip
    assert (first.allowed_services, first.created_by) == (None, maker.name)
    entry = AuditEntry.objects.get(subject=agent.pk)
    assert (entry.action, entry.author, entry.reason) == ("agent.created", maker.name, "Ticket 7")


def test_an_agent_may_be_allowed_some_services_only(maker):
    services = [make_service() for _ in range(3)]
    sent = form(allows="some", services=[services[0].id, services[2].id])

    maker.post(f"{AGENT}_add", **sent)

    assert PolicyRevision.objects.get(agent=sent["id"]).allowed_services == sorted([services[0].id, services[2].id])


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": ""},
        {"id": "x" * 256},
        {"id": "a\nb"},
        {"asset": "GOLD"},
        {"daily_limit": "-1"},
        {"daily_limit": "1e3"},
        {"daily_limit": "0.0000001"},
        {"max_per_payment": ""},
        {"allows": "some"},
        {"allows": "some", "services": ["nobody"]},
        {"allows": "neither"},
    ],
)
def test_a_form_that_is_filled_in_wrongly_makes_nothing(maker, wrong):
    before = Agent.objects.count()

    response = maker.post(f"{AGENT}_add", **form(**wrong))

    assert (response.status_code, Agent.objects.count()) == (200, before)
    assert "errorlist" in response.content.decode()


def test_an_id_is_given_once(maker, agent):
    page = maker.post(f"{AGENT}_add", **form(id=agent.id)).content.decode()

    assert f"There is an agent {agent.id} already." in page


def test_limits_that_do_not_widen_are_warned_about(maker):
    response = maker.post(f"{AGENT}_add", **form(max_per_payment="60", daily_limit="50"))

    assert "The limit per payment is above that of a day" in maker.client.get(response["Location"]).content.decode()


@pytest.mark.parametrize("verb", ["get", "post"])
def test_who_may_not_make_agents_has_no_such_page(auditor, verb):
    make_agent()
    assert reverse(f"admin:{AGENT}_add") not in auditor.get(f"{AGENT}_changelist").content.decode()

    sent = form()
    response = auditor.get(f"{AGENT}_add") if verb == "get" else auditor.post(f"{AGENT}_add", **sent)
    assert response.status_code == 403
    assert not Agent.objects.filter(pk=sent["id"]).exists()
