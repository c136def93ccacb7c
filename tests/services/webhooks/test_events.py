"""Every event has a delivery, written with it or not at all; whoever is told has an endpoint."""

from importlib import import_module

import pytest
from django.core.management.sql import emit_post_migrate_signal
from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor

from foundation.kernel.ids import new_id
from services.models import Service, WebhookDelivery, WebhookEndpoint, WebhookEvent
from services.webhooks.operations import send_test_event
from tests.services.webhooks.told import SECOND, Payee, delivery_of
from tests.support.factories import decide, make_service

pytestmark = pytest.mark.django_db

HOOK = "https://payee.example/hook"


def events_of(service):
    return list(WebhookEvent.objects.filter(service=service))


def forget_deliveries(payee):
    """Let what is there be as it was before there were deliveries."""
    WebhookDelivery.objects.filter(endpoint=payee.id).delete()
    WebhookEndpoint.objects.filter(pk=payee.id).delete()


def give_deliveries():
    with connection.cursor() as cursor:
        migration = import_module("services.migrations.0003_earlier_events")
        cursor.execute(migration.GIVE_ENDPOINTS)
        cursor.execute(migration.GIVE_DELIVERIES)


# --- The trigger ------------------------------------------------------------------------------------------------------
def test_an_event_has_a_delivery_that_is_due_when_it_was_made():
    payee = Payee()

    (event,) = payee.hear()

    delivery = delivery_of(event)
    assert (delivery.endpoint_id, delivery.state, delivery.attempts) == (payee.id, "waiting", 0)
    assert (delivery.next_attempt_at, delivery.is_by_hand) == (payee.at, False)
    assert (delivery.claim, delivery.claimed_until, delivery.delivered_at) == (None, None, None)


def test_each_of_many_events_in_one_statement_has_a_delivery():
    payee = Payee()

    made = WebhookEvent.objects.bulk_create(
        WebhookEvent(id=f"evt_{number}", service=payee.service, type="t", payload="{}", created_at=payee.at)
        for number in range(3)
    )

    assert WebhookDelivery.objects.filter(pk__in=[event.pk for event in made]).count() == 3


def test_what_staff_send_to_try_an_endpoint_out_is_by_hand():
    payee = Payee()

    event = send_test_event(payee.id, by="ann")

    assert delivery_of(event.id).is_by_hand
    assert delivery_of(event.id).next_attempt_at == event.created_at


def test_the_first_event_makes_the_endpoint_if_the_registration_did_not():
    service = make_service()
    Service.objects.filter(pk=service.pk).update(webhook_url=HOOK)
    assert not WebhookEndpoint.objects.filter(pk=service.pk).exists()

    payee = Payee()
    payee.service, payee.id = service, service.id
    events = payee.hear(2)

    assert (payee.endpoint.disabled_at, payee.endpoint.disabled_reason) == (None, "")
    assert {one.event_id for one in payee.claim(payee.at + SECOND)} <= {*events}


def test_an_event_leaves_the_endpoint_as_it_is():
    payee = Payee(works=True)
    payee.change_endpoint(disabled_at=payee.at, disabled_reason="A test.", held_until=payee.at)
    before = WebhookEndpoint.objects.filter(pk=payee.id).values().get()

    payee.hear()

    assert WebhookEndpoint.objects.filter(pk=payee.id).values().get() == before


def test_an_event_that_is_taken_back_takes_its_delivery_and_endpoint_along():
    payee = Payee()
    forget_deliveries(payee)

    with transaction.atomic():
        payee.hear()
        assert WebhookDelivery.objects.filter(endpoint=payee.id).count() == 1
        transaction.set_rollback(True)

    assert not WebhookDelivery.objects.filter(endpoint=payee.id).exists()
    assert not WebhookEndpoint.objects.filter(pk=payee.id).exists()


# --- The money path ---------------------------------------------------------------------------------------------------
def test_an_approved_payment_has_its_delivery_in_the_same_transaction(agent):
    service = make_service(webhook_url=HOOK)

    decide(agent, service)

    (event,) = events_of(service)
    delivery = delivery_of(event.id)
    assert (event.type, delivery.endpoint_id, delivery.state) == ("payment.approved", service.id, "waiting")
    assert (delivery.next_attempt_at, delivery.is_by_hand) == (event.created_at, False)


def test_a_payment_that_is_taken_back_leaves_nothing_to_deliver(agent):
    service = make_service(webhook_url=HOOK)

    with transaction.atomic():
        decide(agent, service)
        assert WebhookDelivery.objects.filter(endpoint=service.id).count() == 1
        transaction.set_rollback(True)

    assert events_of(service) == []
    assert not WebhookDelivery.objects.filter(endpoint=service.id).exists()


def test_a_payee_without_a_webhook_is_told_nothing_and_has_no_endpoint(agent, service):
    decide(agent, service)

    assert events_of(service) == []
    assert not WebhookEndpoint.objects.filter(pk=service.pk).exists()


# --- What was before --------------------------------------------------------------------------------------------------
def test_events_from_before_there_were_deliveries_get_theirs():
    told, registered, cleared = Payee(), Payee(), Payee()
    (event,) = told.hear()
    (late,) = cleared.hear()
    cleared.change_service(webhook_url=None)
    for payee in (told, registered, cleared):
        forget_deliveries(payee)

    give_deliveries()

    assert delivery_of(event).next_attempt_at == told.at
    assert delivery_of(late).state == "waiting"
    assert [one.event_id for one in told.claim()] == [event]
    assert registered.endpoint.disabled_at is None


def test_what_has_a_delivery_already_keeps_it():
    payee = Payee()
    (event,) = payee.hear()
    payee.attempt()

    give_deliveries()

    assert (delivery_of(event).state, delivery_of(event).delivered_at) == ("delivered", payee.at)


def hear_as_before(payee):
    """Write an event as a release does that tells no owners of agents; returns its id."""
    event_id = new_id("evt", payee.at)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO services_webhookevent (id, service_id, type, payload, created_at) VALUES (%s, %s, %s, %s, %s)",
            [event_id, payee.id, "payment.approved", "{}", payee.at],
        )
    return event_id


def migrate_services_alone(*numbers, is_back=False):
    """Leave the other apps, some of whose indexes are built outside of transactions, and no test is."""
    executor = MigrationExecutor(connection)
    found = [executor.loader.get_migration_by_prefix("services", number) for number in numbers]
    executor.migrate(None, plan=[(one, is_back) for one in (reversed(found) if is_back else found)])
    emit_post_migrate_signal(verbosity=0, interactive=False, db="default")


def test_events_can_be_written_when_deliveries_are_migrated_back_and_are_delivered_after_that():
    payee = Payee()
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    migrate_services_alone("0002", "0003", "0004", "0009", is_back=True)

    event = hear_as_before(payee)

    migrate_services_alone("0002", "0003", "0004", "0009")
    assert (delivery_of(event).state, delivery_of(event).next_attempt_at) == ("waiting", payee.at)
    (later,) = payee.hear(at=payee.at + SECOND)
    assert delivery_of(later).state == "waiting"
