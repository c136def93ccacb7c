"""Somebody holds the session of a member of staff, and nothing else: they read no secret and change no account."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import QuerySet

from policy.models import Agent
from policy.operations import pause_agent
from services.models import WebhookEndpoint
from staff.models import AuditEntry
from tests.support.factories import make_agent, new_name
from tests.support.sign_in import PASSWORD, Browser, make_user
from tests.support.webhook_rows import make_endpoint

ENDPOINTS = "/console/services/webhookendpoint/"


@pytest.fixture
def endpoint(db: None) -> WebhookEndpoint:
    return make_endpoint()


@pytest.fixture
def thief(db: None) -> Browser:
    """A browser with a session that its owner has left for a while."""
    browser = Browser().sign_in(make_user("Finance"))
    session = browser.client.session
    session["proved_at"] -= timedelta(minutes=6).total_seconds()
    session.save()
    return browser


def act(browser: Browser, endpoint: WebhookEndpoint, action: str, *, at: str = ENDPOINTS) -> Any:
    form = {"action": action, "index": "0", "_selected_action": [endpoint.pk], "is_meant": "True"}
    return browser.client.post(at, form)


def way_back(browser: Browser, asked: Any) -> str:
    """Where whoever was asked for a proof is led once they have given it; nothing is done by the proof itself."""
    assert asked["Location"].startswith("/console/account/confirm/")
    assert browser.client.post(asked["Location"], {"proof": "a guess"})["Location"] == asked["Location"]
    return browser.client.post(asked["Location"], {"proof": PASSWORD})["Location"]


def changes_of(endpoint: WebhookEndpoint) -> QuerySet[AuditEntry]:
    return AuditEntry.objects.filter(subject=endpoint.pk).exclude(subject_type="service")


def test_the_secret_that_signs_webhooks_is_shown_to_whoever_proves_who_they_are(
    thief: Browser, endpoint: WebhookEndpoint
) -> None:
    asked = act(thief, endpoint, "show_secret")

    assert b"whsec_" not in asked.content
    back = way_back(thief, asked)
    assert not changes_of(endpoint).exists()
    assert b"whsec_" in act(thief, endpoint, "show_secret", at=back).content


def test_the_secret_that_signs_webhooks_is_rotated_by_whoever_proves_who_they_are(
    thief: Browser, endpoint: WebhookEndpoint
) -> None:
    back = way_back(thief, act(thief, endpoint, "rotate"))

    assert not changes_of(endpoint).exists()
    assert act(thief, endpoint, "rotate", at=back).status_code == 302
    assert changes_of(endpoint).exists()


def test_an_agent_is_resumed_by_whoever_proves_who_they_are(thief: Browser) -> None:
    agent = make_agent()
    pause_agent(agent.pk, by="ann", reason="Its key is stolen")
    form = {"action": "resume", "index": "0", "_selected_action": [agent.pk], "reason": "Never mind"}

    back = way_back(thief, thief.client.post("/console/policy/agent/", form))
    agent.refresh_from_db()
    assert agent.status == "paused"

    thief.client.post(back, form)
    agent.refresh_from_db()
    assert agent.status == "active"


def test_an_agent_is_made_by_whoever_proves_who_they_are(thief: Browser) -> None:
    given = {"id": new_name("agent"), "asset": "USDC", "max_per_payment": "9", "daily_limit": "9", "weekly_limit": "9"}
    form = {**given, "allows": "all", "reason": "R"}

    back = way_back(thief, thief.client.post("/console/policy/agent/add/", form))

    assert not Agent.objects.filter(pk=given["id"]).exists()
    preview = thief.client.post(back, form)["Location"]
    thief.client.post(preview, {**form, "make": "1"})
    assert Agent.objects.filter(pk=given["id"]).exists()
