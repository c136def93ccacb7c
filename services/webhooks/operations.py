"""What staff, and payees by registering, do about deliveries. Each locks the endpoint before its deliveries.

What is sent by hand begins the schedule anew, with the same event id and the secrets of that moment; its failures are
not held against the endpoint.
"""

from datetime import datetime

from django.db.models import Q

from allowance.database import brief_transaction
from allowance.kernel.errors import OperationRefused
from allowance.kernel.ids import new_id
from allowance.kernel.times import format_instant, utc_now
from services.models import (
    DeliveryState,
    Service,
    ServiceStatus,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)
from services.webhooks.signing_secrets import SecretUnreadable, as_text, forget_secrets, rotate, secrets_in_force
from services.webhooks.url_checks import host_of

TEST_EVENT = "webhook.test"
# A replay holds the endpoint while it is written down.
MOST_REPLAYED = 10_000


def open_endpoint(service: Service, earlier_url: str | None, now: datetime) -> None:
    """See that a service is told at the webhook URL that it registers: what was disabled, or has moved, begins anew.

    The caller holds the service's row. On another host, or on none, the secrets of the one before end at once:

    - without a day of both: who runs the host before knows them and could sign for the new one; who runs the new one
      could hand on to the one before what is signed with them;
    - at registration, not at approval: staff may show the secret to its new owner before they approve;
    - for good: if the earlier URL comes back, its host may be somebody else's.

    Ports are not compared: the certificate, by which a receiver is known, names the host.
    """
    if service.webhook_url is not None:
        WebhookEndpoint.objects.get_or_create(service=service)
    endpoint = _find_locked(service.id)
    if endpoint is None:
        return
    earlier, host = host_of(earlier_url), host_of(service.webhook_url)
    if host != earlier:
        why = f"The webhook URL's host was {earlier or 'none'}, and is {host or 'none'} now."
        forget_secrets(endpoint, why, now)
    if service.webhook_url is not None and (service.webhook_url != earlier_url or endpoint.disabled_at is not None):
        _reopen(endpoint, now)


def hold_endpoint(service_id: str) -> None:
    """Hold the endpoint of a service, if there is one, until the transaction ends."""
    WebhookEndpoint.objects.select_for_update(no_key=True).filter(pk=service_id).first()


def enable_endpoint(service_id: str) -> WebhookEndpoint:
    """Enable a disabled endpoint: what waited for it is due now.

    Raises:
        OperationRefused: there is none, or it is enabled.
    """
    with brief_transaction():
        endpoint = _lock(service_id)
        if endpoint.disabled_at is None:
            raise OperationRefused(f"The endpoint of {service_id} is enabled.")
        _reopen(endpoint, utc_now())
    return endpoint


def send_again(event_id: str) -> WebhookDelivery:
    """Send one event again, whatever became of it.

    Raises:
        OperationRefused: there is no such event, or its endpoint may not be told.
    """
    delivery = WebhookDelivery.objects.filter(pk=event_id).first()
    if delivery is None:
        raise OperationRefused(f"There is no event {event_id}.")
    with brief_transaction():
        _lock_receptive(delivery.endpoint_id)
        _begin_anew(Q(pk=event_id))
    delivery.refresh_from_db()
    return delivery


def replay_since(service_id: str, since: datetime) -> int:
    """Send every event of a service again that was made at `since` or later, but for tests; returns how many.

    Raises:
        OperationRefused: its endpoint may not be told, or there is nothing to send, or too much.
    """
    with brief_transaction():
        _lock_receptive(service_id)
        count = count_since(service_id, since)
        if not count:
            raise OperationRefused(f"{service_id} has no events since {format_instant(since)}.")
        if count > MOST_REPLAYED:
            raise OperationRefused(f"That is {count} events; at most {MOST_REPLAYED} go at once. Name a later moment.")
        _begin_anew(_made_since(service_id, since))
    return count


def count_since(service_id: str, since: datetime) -> int:
    """Tell how many events `replay_since` would send now."""
    return WebhookDelivery.objects.filter(_made_since(service_id, since)).count()


def send_test_event(service_id: str) -> WebhookEvent:
    """Write an event that says nothing, to see whether it arrives. It has the members of the others.

    Raises:
        OperationRefused: its endpoint may not be told.
    """
    now = utc_now()
    with brief_transaction():
        service = _lock_receptive(service_id).service
        event_id = new_id("evt", now)
        absent = dict.fromkeys(("paymentId", "logId", "agentId", "amount", "status", "tx", "metadata"))
        data = absent | {
            "service": service.id,
            "asset": service.asset,
            "recipient": service.canonical_recipient,
            "reason": "A test, sent by hand.",
            "createdAt": format_instant(now),
        }
        body = {"id": event_id, "type": TEST_EVENT, "timestamp": format_instant(now), "data": data}
        event = WebhookEvent.of(body, service, now)
        event.save(force_insert=True)
    return event


def reveal_secrets(service_id: str) -> dict[str, datetime | None]:
    """Tell what deliveries to a service are signed with now, and until when: the current secret first, without end.

    Raises:
        OperationRefused: it has no endpoint, or they cannot be read with the keys in the environment.
    """
    with brief_transaction():
        endpoint = _lock(service_id)
        try:
            return {as_text(secret): ends_at for secret, ends_at in secrets_in_force(endpoint, utc_now()).items()}
        except SecretUnreadable as error:
            raise OperationRefused(str(error)) from error


def rotate_secret(service_id: str) -> WebhookEndpoint:
    """Make a new secret. For 24 hours deliveries are signed with the one before, too.

    Raises:
        OperationRefused: it has no endpoint.
    """
    with brief_transaction():
        endpoint = _lock(service_id)
        rotate(endpoint, utc_now())
    return endpoint


def _find_locked(service_id: str) -> WebhookEndpoint | None:
    # The service is read once the lock is had: a join would show it as it was before we waited.
    rows = WebhookEndpoint.objects.select_for_update(no_key=True).prefetch_related("service")
    return rows.filter(pk=service_id).first()


def _lock(service_id: str) -> WebhookEndpoint:
    endpoint = _find_locked(service_id)
    if endpoint is None:
        raise OperationRefused(f"{service_id} has no webhook endpoint.")
    return endpoint


def _lock_receptive(service_id: str) -> WebhookEndpoint:
    """Lock an endpoint that may be told something now; who asks for it by hand does not wait for a `Retry-After`."""
    endpoint = _lock(service_id)
    if endpoint.service.status != ServiceStatus.APPROVED:
        raise OperationRefused(f"{service_id} is {endpoint.service.status}: only an approved service is told anything.")
    if endpoint.service.webhook_url is None:
        raise OperationRefused(f"{service_id} has no webhook URL.")
    if endpoint.disabled_at is not None:
        raise OperationRefused(f"The endpoint of {service_id} is disabled: enable it first.")
    WebhookEndpoint.objects.filter(pk=service_id).update(held_until=None)
    return endpoint


def _reopen(endpoint: WebhookEndpoint, now: datetime) -> None:
    endpoint.disabled_at, endpoint.disabled_reason = None, ""
    endpoint.failing_since = endpoint.succeeded_at = endpoint.held_until = None
    endpoint.save()
    # Attempts that are under way belong to what was: they are logged, and decide nothing any more.
    attempted = Q(attempts__gt=0) | Q(claim__isnull=False) | Q(next_attempt_at__gt=now)
    waiting = WebhookDelivery.objects.filter(attempted, endpoint=endpoint, state=DeliveryState.WAITING)
    waiting.update(attempts=0, next_attempt_at=now, claim=None, claimed_until=None)


def _made_since(service_id: str, since: datetime) -> Q:
    return Q(endpoint_id=service_id, event__created_at__gte=since) & ~Q(event__type=TEST_EVENT)


def _begin_anew(which: Q) -> None:
    # A worker that holds one of these has lost its claim: what comes of its attempt is logged, no more.
    WebhookDelivery.objects.filter(which).update(
        state=DeliveryState.WAITING,
        attempts=0,
        is_by_hand=True,
        next_attempt_at=utc_now(),
        claim=None,
        claimed_until=None,
    )
