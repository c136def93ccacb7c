"""Where an agent's owner is told: `manage.py set_agent_webhook`, and the change that it makes."""

import json

import pytest
from django.db import IntegrityError, connection, transaction

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from services.models import WebhookEndpoint, WebhookEvent, endpoint_of_agent
from services.webhooks.agent_urls import set_agent_url
from services.webhooks.queries import EndpointState, read_statuses, state_of
from staff.kinds import find_kind, make
from staff.models import AuditEntry
from tests.services.webhooks.told import Payee
from tests.support.commands import run
from tests.support.factories import make_agent, make_agent_of_old, make_service, new_name

pytestmark = pytest.mark.django_db

URL = "https://owner.example/hook?key=1"


def set_webhook(*arguments):
    lines, failure = run("set_agent_webhook", *arguments)
    return (json.loads(lines[-1]) if failure is None else None), lines, failure


def test_the_command_sets_a_url_and_prints_the_secret_which_is_recorded():
    agent = make_agent()

    told, lines, failure = set_webhook(agent.id, URL, "--reason", "They asked for it.")

    assert failure is None
    endpoint = WebhookEndpoint.objects.get(agent=agent)
    assert (endpoint.pk, endpoint.its_url, state_of(endpoint)) == (f"@{agent.id}", URL, EndpointState.NEW)
    (secret,) = told["secrets"]
    assert (told["agent"], told["url"], secret["endsAt"]) == (agent.id, URL, None)
    assert secret["secret"] in lines[-2]
    entry = AuditEntry.objects.get(action="agent.webhook_set", subject=agent.id)
    assert (entry.before, entry.after, entry.reason) == (
        {"webhookUrl": None}, {"webhookUrl": URL}, "They asked for it."
    )  # fmt: skip
    assert AuditEntry.objects.filter(action="webhook.secret_shown", subject=endpoint.pk).count() == 1
    again, _ = run("webhooks", "secret", endpoint.pk)
    assert json.loads(again[-1])["secrets"] == told["secrets"]


def test_none_ends_it_and_its_secret():
    agent = make_agent()
    (before,) = set_webhook(agent.id, URL)[0]["secrets"]

    told, _, failure = set_webhook(agent.id, "--none")

    assert (failure, told) == (None, {"agent": agent.id, "url": None, "secrets": []})
    assert state_of(WebhookEndpoint.objects.get(agent=agent)) == EndpointState.UNSERVED
    (after,) = set_webhook(agent.id, URL)[0]["secrets"]
    assert after != before


@pytest.mark.parametrize(
    "url",
    ["http://owner.example/", "https://10.0.0.1/", "https://[::1]/", "https://2130706433/", "https://owner.internal/",
     "https://a:b@owner.example/", "https://owner/", "ftp://owner.example/", "https://owner.example:22/", ""],
)  # fmt: skip
def test_a_url_that_no_payee_may_register_is_none_of_an_owner(url, settings):
    settings.WEBHOOKS_ALLOW_PRIVATE = False
    agent = make_agent()

    _, _, failure = set_webhook(agent.id, url)

    assert failure is not None
    with pytest.raises(OperationRefused, match="The webhook URL: "):
        make("agent.set_webhook", {"agent": agent.id, "url": url}, by="ann", reason="")
    assert not WebhookEndpoint.objects.filter(agent=agent).exists()


def test_it_is_a_change_of_staff_who_may_change_agents():
    kind = find_kind("agent.set_webhook")

    assert kind.permission == "policy.change_agent"
    agent = make_agent()
    run("change", kind.name, f"agent={agent.id}", f"url={URL}", "--reason", "A reason")
    assert WebhookEndpoint.objects.get(agent=agent).url == URL


def test_what_changes_nothing_is_refused():
    agent = make_agent()
    for arguments in ((agent.id, "--none"), ("nobody", URL), (make_agent_of_old(128 * "x", asset=Asset.USDC).id, URL)):
        assert set_webhook(*arguments)[2] is not None
    set_webhook(agent.id, URL)

    assert "already" in str(set_webhook(agent.id, URL)[2])


def test_a_payee_with_the_id_of_an_agent_has_an_endpoint_of_its_own():
    agent, payee = make_agent(), Payee()
    set_agent_url(agent.id, URL, by="ann")

    for pk in (agent.id, payee.id):
        with pytest.raises(IntegrityError), transaction.atomic():
            WebhookEndpoint.objects.create(pk=pk, agent=agent, url=URL)
    with pytest.raises(IntegrityError), transaction.atomic():
        WebhookEndpoint.objects.create(pk=endpoint_of_agent(new_name("agent")))


def test_an_event_has_one_receiver():
    agent, service = make_agent(), make_service()
    body = {"id": "evt_1", "type": "t"}

    for receiver in ({"agent": agent, "service": service}, {}):
        with pytest.raises(IntegrityError, match="one_receiver"), transaction.atomic():
            WebhookEvent.objects.create(id="evt_1", type="t", payload="{}", created_at=agent.created_at, **receiver)
    # Without an endpoint nothing could be delivered: it is not written.
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    with pytest.raises(IntegrityError), transaction.atomic():
        WebhookEvent.of_agent(body, agent.id, agent.created_at).save(force_insert=True)


def test_its_state_is_listed_beside_those_of_payees():
    agent = make_agent()
    set_agent_url(agent.id, URL, by="ann")

    lines, _ = run("webhooks")

    (shown,) = [one for one in json.loads(lines[-1])["endpoints"] if one["agent"] == agent.id]
    assert (shown["service"], shown["url"], shown["state"]) == (None, URL, "new")
    assert [one.endpoint_id for one in read_statuses() if one.url == URL] == [f"@{agent.id}"]
