"""Signing secrets in the console: shown on request, recorded, in that one answer and nowhere else; and rotated."""

import logging
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.messages import get_messages
from standardwebhooks import Webhook, WebhookVerificationError

from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from policy.webhook_keys import sign_webhook
from services.models import WebhookEndpoint, WebhookSecret
from services.operations import Registration, register_service
from services.webhooks.claims import claim_deliveries
from services.webhooks.signatures import sign_headers
from staff.models import AuditEntry
from tests.foundation.console.conftest import Person
from tests.support.factories import make_service
from tests.support.webhook_rows import make_attempt, make_delivery, make_endpoint

ENDPOINT = "services_webhookendpoint"
# Before what other tests made is due.
LONG_AGO = datetime(2015, 5, 14, tzinfo=UTC)


@pytest.fixture
def endpoint(db: None) -> WebhookEndpoint:
    return make_endpoint()


def ask_for_secret(person: Person, endpoint: WebhookEndpoint) -> Any:
    return person.try_to_act(ENDPOINT, "show_secret", endpoint.pk, is_meant="True")


def secrets_in(response: Any) -> list[str]:
    return re.findall(r"whsec_[A-Za-z0-9+/=]+", response.content.decode())


def rotate(person: Person, endpoint: WebhookEndpoint) -> list[str]:
    return person.act(ENDPOINT, "rotate", endpoint.pk, is_meant="True")


def those_that_verify(endpoint: WebhookEndpoint, *secrets: str) -> list[str]:
    """Sign a delivery as a worker does; find the secrets with which a payee takes it for ours."""
    event_id = make_delivery(endpoint, at=LONG_AGO).pk
    (claimed,) = [one for one in claim_deliveries(1000, LONG_AGO) if one.event_id == event_id]
    headers = sign_headers(event_id, claimed.body, utc_now(), claimed.secrets, sign_webhook)
    return [secret for secret in secrets if is_genuine(secret, claimed.body, headers)]


def is_genuine(secret: str, body: bytes, headers: dict[str, str]) -> bool:
    try:
        Webhook(secret).verify(body, headers)
    except WebhookVerificationError:
        return False
    return True


def test_showing_a_secret_asks_first_and_says_that_it_is_recorded(finance, endpoint):
    page = finance.try_to_act(ENDPOINT, "show_secret", endpoint.pk)

    assert secrets_in(page) == []
    assert "is recorded" in page.content.decode()
    assert not AuditEntry.objects.filter(subject_type="webhook", subject=endpoint.pk).exists()


def test_the_secret_that_is_shown_verifies_deliveries(finance, endpoint):
    (secret,) = secrets_in(ask_for_secret(finance, endpoint))

    assert those_that_verify(endpoint, secret) == [secret]
    assert secrets_in(ask_for_secret(finance, endpoint)) == [secret]


def test_the_secret_of_another_endpoint_verifies_nothing(finance, endpoint):
    (secret,) = secrets_in(ask_for_secret(finance, make_endpoint()))

    assert those_that_verify(endpoint, secret) == []


def test_who_looked_at_a_secret_is_recorded_without_the_secret(finance, superuser, endpoint):
    before = utc_now()
    (secret,) = secrets_in(ask_for_secret(finance, endpoint))

    entry = AuditEntry.objects.get(subject_type="webhook", subject=endpoint.pk)
    page = superuser.get("staff_auditentry_changelist", q=endpoint.pk).content.decode()

    assert (entry.author, entry.action) == (finance.name, "webhook.secret_shown")
    assert before <= entry.at <= utc_now()
    assert finance.name in page
    assert "Signing secret shown" in page
    assert secret not in page


def test_a_secret_is_in_one_answer_that_nothing_keeps(finance, endpoint, caplog):
    with caplog.at_level(logging.DEBUG):
        response = ask_for_secret(finance, endpoint)
    (secret,) = secrets_in(response)

    assert response.status_code == 200
    assert "no-store" in response["Cache-Control"]
    assert "Location" not in response
    assert [str(message) for message in get_messages(response.wsgi_request)] == []
    assert secret not in f"{response.cookies} {finance.client.cookies} {dict(finance.client.session)} {caplog.text}"
    assert secret not in response.request["PATH_INFO"] + response.request["QUERY_STRING"]


def test_no_other_page_shows_a_secret(superuser, endpoint):
    (secret,) = secrets_in(ask_for_secret(superuser, endpoint))
    attempt = make_attempt(make_delivery(endpoint))
    ciphertext = bytes(WebhookSecret.objects.get(endpoint=endpoint).ciphertext)

    pages = [
        superuser.get("index"),
        superuser.get(f"{ENDPOINT}_changelist", q=endpoint.pk),
        superuser.get(f"{ENDPOINT}_changelist", action="show_secret", _selected_action=endpoint.pk, is_meant="True"),
        superuser.get(f"{ENDPOINT}_change", endpoint.pk),
        superuser.get(f"{ENDPOINT}_history", endpoint.pk),
        superuser.get("services_service_change", endpoint.pk),
        superuser.get("services_webhookdelivery_change", attempt.delivery_id),
        superuser.get("services_webhookattempt_change", str(attempt.pk)),
        superuser.try_to_act(ENDPOINT, "rotate", endpoint.pk),
    ]

    for page in pages:
        html = page.content.decode()
        assert secret.removeprefix("whsec_") not in html
        assert ciphertext.hex()[:16] not in html
        assert repr(ciphertext)[2:18] not in html
    assert superuser.client.get("/console/services/webhooksecret/").status_code == 404


def test_each_endpoint_shows_its_own_secret(finance, endpoint):
    said = finance.act(ENDPOINT, "show_secret", endpoint.pk, make_endpoint().pk, is_meant="True")

    assert said == ["Choose one endpoint: each shows its own secret."]


def test_a_secret_that_cannot_be_read_is_told_in_a_sentence_and_nothing_is_recorded(finance, endpoint):
    ask_for_secret(finance, endpoint)
    WebhookSecret.objects.filter(endpoint=endpoint).update(ciphertext=b"\x00" * 60)

    said = finance.act(ENDPOINT, "show_secret", endpoint.pk, is_meant="True")

    assert said == [f"The webhook secret of {endpoint.pk} was encrypted under another key."]
    assert AuditEntry.objects.filter(subject_type="webhook", subject=endpoint.pk).count() == 1


# --- Rotation ---------------------------------------------------------------------------------------------------------
def test_a_rotation_asks_first_and_says_how_long_both_sign(finance, endpoint):
    (before,) = secrets_in(ask_for_secret(finance, endpoint))

    page = finance.try_to_act(ENDPOINT, "rotate", endpoint.pk)

    assert "24 hours" in page.content.decode()
    assert secrets_in(ask_for_secret(finance, endpoint)) == [before]


def test_after_a_rotation_both_secrets_are_shown_with_the_end_of_the_old_one_and_both_verify(finance, endpoint):
    (old,) = secrets_in(ask_for_secret(finance, endpoint))

    assert rotate(finance, endpoint) == [f"Rotated the signing secret of {endpoint.pk}."]

    page = ask_for_secret(finance, endpoint)
    new, still = secrets_in(page)
    ends_at = WebhookSecret.objects.get(endpoint=endpoint, expires_at__isnull=False).expires_at
    assert ends_at is not None
    assert timedelta(hours=23) < ends_at - utc_now() <= timedelta(hours=24)
    assert still == old != new
    rows = re.findall(r'<th scope="row">([^<]*)</th>\s*<td><code class="secret">([^<]*)', page.content.decode())
    assert rows == [("Current", new), (f"Until {ends_at:%Y-%m-%d %H:%M:%S} UTC", old)]
    assert those_that_verify(endpoint, new, old) == [new, old]


def test_a_secret_whose_time_is_over_is_shown_no_more(finance, endpoint):
    ask_for_secret(finance, endpoint), rotate(finance, endpoint)
    WebhookSecret.objects.filter(endpoint=endpoint, expires_at__isnull=False).update(expires_at=LONG_AGO)

    page = ask_for_secret(finance, endpoint)

    assert len(secrets_in(page)) == 1
    assert "Until" not in page.content.decode().partition('id="secrets"')[2]


def test_a_rotation_is_kept_with_its_author_in_the_audit(finance, endpoint):
    rotate(finance, endpoint)

    entry = AuditEntry.objects.get(subject_type="webhook", subject=endpoint.pk)

    assert (entry.author, entry.action) == (finance.name, "webhook.secret_rotated")


# --- Another host -----------------------------------------------------------------------------------------------------
WHY = "The webhook URL&#x27;s host was hooks.example.com, and is moved.example now. The payee needs the new one."


def move(endpoint: WebhookEndpoint, url: str = "https://moved.example/hook") -> None:
    service = endpoint.service
    register_service(Registration(service.id, service.name, service.recipient, Asset(service.asset), url))


def test_who_approves_or_looks_after_a_move_is_told_that_the_secret_was_rotated_and_why(finance, auditor, endpoint):
    ask_for_secret(finance, endpoint)
    move(endpoint)

    pages = [
        finance.try_to_act("services_service", "approve", endpoint.pk),
        auditor.get(f"{ENDPOINT}_change", endpoint.pk),
        ask_for_secret(finance, endpoint),
    ]

    endpoint.refresh_from_db()
    for page in pages:
        assert f"Rotated {endpoint.secret_rotated_at:%Y-%m-%d %H:%M:%S} UTC. {WHY}" in page.content.decode()


def test_where_nothing_was_rotated_nothing_is_said_of_it(finance, endpoint):
    ask_for_secret(finance, endpoint)

    for page in (
        finance.try_to_act("services_service", "approve", endpoint.pk, make_service().id),
        finance.get(f"{ENDPOINT}_change", endpoint.pk),
        ask_for_secret(finance, endpoint),
    ):
        assert "Rotated" not in page.content.decode()


def test_a_secret_is_shown_with_the_url_that_it_signs_for(finance, endpoint):
    """Who chose the endpoint at its earlier URL hands the new secret to nobody by mistake."""
    finance.try_to_act(ENDPOINT, "show_secret", endpoint.pk)
    move(endpoint)

    page = ask_for_secret(finance, endpoint).content.decode()

    assert "<code>https://moved.example/hook</code>" in page
    assert "https://hooks.example.com/allowance" not in page
