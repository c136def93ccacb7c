"""The console's pages of webhooks that tell the owners of agents."""

import re
from decimal import Decimal

import pytest

from services.models import WebhookDelivery, WebhookEndpoint, endpoint_of_agent
from services.webhooks.agent_urls import set_agent_url
from services.webhooks.operations import send_test_event
from staff.models import AuditEntry, ChangeRequest
from tests.support.factories import decide, make_agent, make_service

pytestmark = pytest.mark.django_db
ENDPOINT, DELIVERY = "services_webhookendpoint", "services_webhookdelivery"
URL = "https://owner.example.com/approvals"


@pytest.fixture
def agent(db):
    told = make_agent(approval_above=Decimal(5))
    set_agent_url(told.id, URL, by="ann")
    return told


def test_the_page_of_an_agent_leads_to_its_endpoint(finance, agent):
    page = finance.get("policy_agent_change", agent.id).content.decode()

    section = page[page.index("Webhook of its owner") :]
    assert "badge endpoint new" in section
    (address,) = re.findall(r'href="([^"]+webhookendpoint[^"]+)"', section)
    shown = finance.client.get(address).content.decode()
    assert URL in shown
    assert f"agent {agent.id}" in shown
    assert "badge endpoint" not in finance.get("policy_agent_change", make_agent().id).content.decode()


def test_lists_show_what_an_owner_was_told(finance, agent):
    decide(agent, make_service(), "6")
    pk = endpoint_of_agent(agent.id)

    for model in (ENDPOINT, DELIVERY):
        listed = finance.get(f"{model}_changelist", q=pk).content.decode()
        assert f"agent {agent.id}" in listed or pk in listed, model
    delivery = WebhookDelivery.objects.get(endpoint=pk)
    page = finance.get(f"{DELIVERY}_change", delivery.pk).content.decode()
    assert "approval.requested" in page
    assert f">agent {agent.id}</a>" in page


def test_staff_test_and_rotate_it_as_that_of_a_payee(finance, agent):
    pk = endpoint_of_agent(agent.id)

    finance.act(ENDPOINT, "send_test", pk)
    assert WebhookDelivery.objects.get(endpoint=pk).event.type == "webhook.test"

    shown = finance.try_to_act(ENDPOINT, "show_secret", pk, is_meant="True").content.decode()
    assert "whsec_" in shown
    assert "agent&#x27;s owner" in shown or "agent's owner" in shown
    finance.act(ENDPOINT, "rotate", pk, is_meant="True")
    assert "The agent&#x27;s owner needs the new one." in finance.get(f"{ENDPOINT}_change", pk).content.decode()
    send_test_event(pk, by="ann")


def url_of(agent):
    return WebhookEndpoint.objects.get(pk=endpoint_of_agent(agent.id)).url


def test_one_person_sets_it_in_the_console_as_the_command_does(finance, settings):
    settings.FOUR_EYES = True
    agent = make_agent()

    (said,) = finance.carry_out("policy_agent", "set_webhook", agent.id, url=URL, reason="Ticket 12")

    assert said == f"The owner of {agent.id} is told at {URL}."
    assert url_of(agent) == URL
    entry = AuditEntry.objects.get(subject=agent.id, action="agent.webhook_set")
    assert (entry.author, entry.reason, entry.after) == (finance.name, "Ticket 12", {"webhookUrl": URL})
    assert not ChangeRequest.objects.exists()


def test_an_empty_field_takes_it_away(finance, agent):
    form = finance.try_to_act("policy_agent", "set_webhook", agent.id).content.decode()
    assert f'value="{URL}"' in form

    (said,) = finance.carry_out("policy_agent", "set_webhook", agent.id, url="", reason="Ticket 13")

    assert (said, url_of(agent)) == (f"The owner of {agent.id} is told nothing any more.", None)


@pytest.mark.parametrize(
    ("url", "why"),
    [("http://owner.example.com/", "The webhook URL"), ("https://10.0.0.1/", "The webhook URL"), (URL, "already")],
)
def test_what_is_refused_is_said_on_the_form(finance, agent, url, why):
    (said,) = finance.carry_out("policy_agent", "set_webhook", agent.id, url=url)

    assert why in said
    assert url_of(agent) == URL


def test_who_may_not_change_agents_is_not_offered_it(auditor, agent):
    assert "set_webhook" not in auditor.get("policy_agent_changelist").content.decode()
    auditor.try_to_act("policy_agent", "set_webhook", agent.id, url="", reason="Ticket 14")

    assert url_of(agent) == URL
