"""What finance staff do about webhooks: test, replay, enable and send again. Secrets have tests of their own."""

import re
from datetime import datetime, timedelta
from typing import Any

import pytest

from foundation.kernel.times import utc_now
from services.models import WebhookDelivery, WebhookEndpoint, WebhookSecret
from tests.foundation.console.conftest import recorded
from tests.support.webhook_rows import make_delivery, make_endpoint

ENDPOINT, DELIVERY = "services_webhookendpoint", "services_webhookdelivery"
DISABLED: dict[str, Any] = {"disabled_at": utc_now(), "disabled_reason": "It answered 410 Gone."}
HOUR = timedelta(hours=1)


def hidden(response: Any, name: str) -> str:
    (value,) = re.findall(rf'name="{name}" value="([^"]*)"', response.content.decode())
    return str(value)


def written(moment: datetime) -> str:
    """Write a moment as a browser posts it."""
    return f"{moment:%Y-%m-%dT%H:%M:%S}"


# --- Test events and enabling -----------------------------------------------------------------------------------------
def test_finance_sends_a_test_event(finance, db):
    endpoint = make_endpoint()

    said = finance.act(ENDPOINT, "send_test", endpoint.pk)

    delivery = WebhookDelivery.objects.get(endpoint=endpoint)
    assert said == [f"Sent a test event to {endpoint.pk}."]
    assert (delivery.event.type, delivery.state) == ("webhook.test", "waiting")
    assert recorded(endpoint.pk, "webhook") == [("webhook.tested", finance.name)]


def test_finance_enables_a_disabled_endpoint(finance, db):
    endpoint = make_endpoint(**DISABLED)

    assert finance.act(ENDPOINT, "enable", endpoint.pk) == [f"Enabled {endpoint.pk}."]

    endpoint.refresh_from_db()
    assert endpoint.disabled_at is None
    assert recorded(endpoint.pk, "webhook") == [("webhook.enabled", finance.name)]


@pytest.mark.parametrize(
    ("action", "fields", "reason"),
    [("enable", {}, "is enabled."), ("send_test", DISABLED, "is disabled: enable it first.")],
)
def test_what_cannot_be_done_now_is_refused_in_a_sentence_and_not_kept(finance, db, action, fields, reason):
    endpoint = make_endpoint(**fields)

    said = finance.act(ENDPOINT, action, endpoint.pk)

    assert said == [f"The endpoint of {endpoint.pk} {reason}"]
    assert recorded(endpoint.pk, "webhook") == []


# --- Replay -----------------------------------------------------------------------------------------------------------
def test_a_replay_says_first_how_many_events_it_is_about_from_the_last_24_hours_on(finance, db):
    endpoint = make_endpoint()
    deliveries = [make_delivery(endpoint, at=utc_now() - hours * HOUR, state="delivered") for hours in (1, 23, 25)]
    make_delivery(endpoint, event_type="webhook.test", state="delivered")

    page = finance.try_to_act(ENDPOINT, "replay", endpoint.pk)

    since = datetime.fromisoformat(f"{hidden(page, 'counted')}Z")
    assert timedelta(0) <= utc_now() - 24 * HOUR - since < HOUR
    assert re.search(rf"Events since {since:%Y-%m-%dT%H:%M:%S}.000Z</dt><dd><bdi>2</bdi>", page.content.decode())
    assert {WebhookDelivery.objects.get(pk=delivery.pk).state for delivery in deliveries} == {"delivered"}


def test_finance_replays_what_was_counted(finance, db):
    endpoint = make_endpoint()
    old, new = (make_delivery(endpoint, at=utc_now() - hours * HOUR, state="delivered") for hours in (25, 1))
    page = finance.try_to_act(ENDPOINT, "replay", endpoint.pk)
    since = hidden(page, "since")

    said = finance.act(ENDPOINT, "replay", endpoint.pk, since=since, counted=hidden(page, "counted"))

    old.refresh_from_db()
    new.refresh_from_db()
    assert (old.state, new.state, new.is_by_hand) == ("delivered", "waiting", True)
    assert said == [f"Replayed events made since {since}.000Z to {endpoint.pk}."]
    assert recorded(endpoint.pk, "webhook") == [("webhook.replayed", finance.name)]


def test_another_moment_is_counted_for_before_anything_is_sent(finance, db):
    endpoint = make_endpoint()
    delivery = make_delivery(endpoint, at=utc_now() - 30 * HOUR, state="delivered")
    first = finance.try_to_act(ENDPOINT, "replay", endpoint.pk)
    earlier = written(utc_now() - 31 * HOUR)

    second = finance.try_to_act(ENDPOINT, "replay", endpoint.pk, since=earlier, counted=hidden(first, "counted"))
    delivery.refresh_from_db()
    assert (second.status_code, delivery.state) == (200, "delivered")
    assert "<bdi>1</bdi>" in second.content.decode()

    finance.act(ENDPOINT, "replay", endpoint.pk, since=hidden(second, "since"), counted=hidden(second, "counted"))
    delivery.refresh_from_db()
    assert delivery.state == "waiting"


@pytest.mark.parametrize(
    "since", ["", "yesterday", "2026-02-30T00:00:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"]
)
def test_a_moment_that_is_none_replays_nothing(finance, db, since):
    delivery = make_delivery(make_endpoint(), state="delivered")

    response = finance.try_to_act(ENDPOINT, "replay", delivery.endpoint_id, since=since, counted=since)

    delivery.refresh_from_db()
    assert (response.status_code, delivery.state) == (200, "delivered")
    assert "errorlist" in response.content.decode()


def test_a_replay_of_nothing_is_refused_in_a_sentence(finance, db):
    endpoint, now = make_endpoint(), written(utc_now())

    said = finance.act(ENDPOINT, "replay", endpoint.pk, since=now, counted=now)

    assert said == [f"{endpoint.pk} has no events since {now}.000Z."]


# --- Sending again ----------------------------------------------------------------------------------------------------
def test_finance_sends_several_events_again(finance, db):
    endpoint = make_endpoint()
    states = ("failed", "delivered", "waiting")
    ids = [make_delivery(endpoint, state=state, attempts=7).pk for state in states]

    said = finance.act(DELIVERY, "send_again", *ids)

    assert sorted(said) == [f"Began to send again {event_id}." for event_id in sorted(ids)]
    for event_id in ids:
        delivery = WebhookDelivery.objects.get(pk=event_id)
        assert (delivery.state, delivery.attempts, delivery.is_by_hand) == ("waiting", 0, True)
        assert recorded(event_id) == [("delivery.sent_again", finance.name)]


def test_one_refusal_does_not_hinder_sending_the_others_again(finance, db):
    refused, sent = make_delivery(make_endpoint(**DISABLED), state="failed"), make_delivery(make_endpoint())

    said = finance.act(DELIVERY, "send_again", refused.pk, sent.pk)

    refused.refresh_from_db()
    assert refused.state == "failed"
    assert sorted(said) == [
        f"Began to send again {sent.pk}.",
        f"The endpoint of {refused.endpoint_id} is disabled: enable it first.",
    ]


# --- Who may not ------------------------------------------------------------------------------------------------------
FORM = {"is_meant": "True", "since": "2020-01-01T00:00:00", "counted": "2020-01-01T00:00:00"}


@pytest.mark.parametrize("action", ["send_test", "replay", "enable", "show_secret", "rotate"])
@pytest.mark.parametrize("extra", [{}, {"select_across": "1"}])
def test_an_auditors_forged_action_on_an_endpoint_is_refused(auditor, db, action, extra):
    endpoint = make_endpoint(**(DISABLED if action == "enable" else {}))
    delivery = make_delivery(endpoint, state="delivered")
    before = WebhookEndpoint.objects.filter(pk=endpoint.pk).values().get()

    response = auditor.try_to_act(ENDPOINT, action, endpoint.pk, **FORM, **extra)

    assert response.status_code == 403
    assert WebhookEndpoint.objects.filter(pk=endpoint.pk).values().get() == before
    assert [row.state for row in WebhookDelivery.objects.filter(endpoint=endpoint)] == ["delivered"]
    assert not WebhookSecret.objects.filter(endpoint=endpoint).exists()
    assert WebhookDelivery.objects.get(pk=delivery.pk).is_by_hand is False


def test_an_auditors_forged_sending_again_is_refused(auditor, db):
    delivery = make_delivery(make_endpoint(), state="delivered")

    response = auditor.try_to_act(DELIVERY, "send_again", delivery.pk)

    delivery.refresh_from_db()
    assert (response.status_code, delivery.state) == (403, "delivered")


@pytest.mark.parametrize("flags", [{}, {"is_staff": False, "group": "Finance"}])
def test_who_has_no_business_with_webhooks_cannot_act_on_them(make_person, flags):
    endpoint = make_endpoint()

    response = make_person(**flags).try_to_act(ENDPOINT, "show_secret", endpoint.pk, **FORM)

    assert response.status_code in {302, 403}
    assert "whsec_" not in response.content.decode()
    assert not WebhookSecret.objects.filter(endpoint=endpoint).exists()


def test_the_log_itself_offers_no_action(finance, db):
    assert finance.post("services_webhookattempt_changelist", action="delete_selected").status_code == 403
