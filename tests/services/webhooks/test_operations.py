"""Enabling an endpoint, and what payees do to it by registering. Secrets: test_secrets."""

import pytest

from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from services.models import WebhookEndpoint
from services.operations import approve_service
from services.webhooks.endpoints import enable_endpoint
from tests.services.webhooks.told import DAY, GONE, HOUR, REFUSED, SECOND, Payee, delivery_of, due_at, record, result_of
from tests.support.factories import make_service
from tests.support.webhook_rows import disable

pytestmark = pytest.mark.django_db


def assert_begun_anew(endpoint):
    assert (endpoint.disabled_at, endpoint.disabled_reason) == (None, "")
    assert (endpoint.failing_since, endpoint.succeeded_at, endpoint.held_until) == (None, None, None)


# --- Enabling ---------------------------------------------------------------------------------------------------------
def test_what_waited_for_an_endpoint_is_due_when_it_is_enabled():
    payee = Payee()
    (failed, waiting) = payee.hear(2, at=payee.at - SECOND)
    payee.attempt(**GONE)
    later = utc_now() + DAY
    for event in (failed, waiting):
        delivery = delivery_of(event)
        delivery.next_attempt_at = later
        delivery.save()

    before = utc_now()
    endpoint = enable_endpoint(payee.id, by="ann")

    assert endpoint.pk == payee.id
    assert_begun_anew(payee.endpoint)
    assert all(before <= due_at(event) <= utc_now() for event in (failed, waiting))
    assert [delivery_of(event).attempts for event in (failed, waiting)] == [0, 0]
    assert len(payee.claim(utc_now())) == 1


def test_the_last_attempt_at_an_earlier_url_does_not_keep_an_event_from_the_new_one():
    payee = Payee()
    (event,) = payee.hear()
    payee.endpoint.deliveries.update(attempts=9)
    (claimed,) = payee.claim()
    payee.register_again("https://moved.example/hook")
    approve_service(payee.id, by="test")

    record(utc_now(), result_of(claimed, utc_now(), **REFUSED))

    assert (delivery_of(event).state, delivery_of(event).attempts) == ("waiting", 0)
    (again,) = payee.claim(utc_now())
    assert (again.event_id, again.url) == (event, "https://moved.example/hook")


def test_what_is_over_stays_so_when_an_endpoint_is_enabled():
    payee = Payee()
    (delivered,) = payee.hear()
    payee.attempt()
    disable(payee)

    enable_endpoint(payee.id, by="ann")

    assert (delivery_of(delivered).state, delivery_of(delivered).next_attempt_at) == ("delivered", None)


def test_an_endpoint_that_is_enabled_cannot_be_enabled():
    payee = Payee()

    with pytest.raises(OperationRefused, match=f"{payee.id} is enabled"):
        enable_endpoint(payee.id, by="ann")


# --- Registering ------------------------------------------------------------------------------------------------------
def test_a_registration_with_a_webhook_url_makes_an_endpoint_and_one_without_does_not():
    assert_begun_anew(Payee().endpoint)
    assert not WebhookEndpoint.objects.filter(pk=make_service().id).exists()


def test_the_same_registration_again_enables_a_disabled_endpoint():
    payee = Payee()
    payee.hear()
    disable(payee)

    payee.register_again()

    assert_begun_anew(payee.endpoint)
    assert len(payee.claim(utc_now())) == 1


def test_the_same_registration_again_changes_nothing_for_an_enabled_endpoint():
    payee = Payee()
    (event,) = payee.hear()
    payee.attempt(**REFUSED, retry_after="3600")
    before = WebhookEndpoint.objects.filter(pk=payee.id).values().get()

    payee.register_again()

    assert WebhookEndpoint.objects.filter(pk=payee.id).values().get() == before
    assert delivery_of(event).next_attempt_at == payee.at + HOUR


def test_a_changed_url_begins_anew_and_waits_for_approval():
    payee = Payee(works=True)
    (event,) = payee.hear()
    payee.attempt(**REFUSED, retry_after="3600")

    payee.register_again("https://moved.example/hook")

    assert_begun_anew(payee.endpoint)
    assert payee.claim(utc_now()) == []
    approve_service(payee.id, by="test")
    (claimed,) = payee.claim(utc_now())
    assert (claimed.event_id, claimed.url) == (event, "https://moved.example/hook")
