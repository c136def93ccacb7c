"""Operations of finance staff on webhooks. Each locks the endpoint before its deliveries.

A delivery that staff send again begins its schedule anew, with the same event id and the secrets of that moment; its
failures are not held against the endpoint.
"""

from datetime import datetime

from django.db import transaction
from django.db.models import Q

from foundation.database import brief_transaction
from foundation.groups import group_of_row, within
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import format_instant, utc_now
from services.models import (
    DeliveryState,
    ServiceStatus,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
    WebhookSecret,
)
from services.webhooks.endpoints import group_of_endpoint, in_groups_of, lock_endpoint, record_endpoint
from services.webhooks.signing_secrets import SecretUnreadable, as_text, reseal, rotate, secrets_in_force
from services.webhooks.trial_events import TEST_EVENT, make_test_event
from staff.audit import record

# A replay holds the endpoint's lock while it is written.
MOST_REPLAYED = 10_000


def send_again(event_id: str, *, by: str, reason: str = "") -> WebhookDelivery:
    """Send one event again, delivered or not.

    Raises:
        OperationRefused: there is no such event, or its endpoint receives no events now.
    """
    delivery = WebhookDelivery.objects.filter(pk=event_id).first()
    if delivery is None:
        raise OperationRefused(f"There is no event {event_id}.")
    with within(group_of_row(WebhookDelivery, event_id)), brief_transaction():
        _lock_receptive(delivery.endpoint_id)
        _begin_anew(Q(pk=event_id))
        before, after = {"state": delivery.state}, {"state": DeliveryState.WAITING.value}
        record(
            "delivery.sent_again",
            subject_type="delivery",
            subject=event_id,
            by=by,
            reason=reason,
            before=before,
            after=after,
        )
        delivery.refresh_from_db()
    return delivery


def replay_since(endpoint_id: str, since: datetime, *, by: str, reason: str = "") -> int:
    """Send every event of an endpoint again that was made at `since` or later, but for tests; returns how many.

    Raises:
        OperationRefused: its endpoint receives no events now, or there are none to send, or too many.
    """
    return sum(in_groups_of(endpoint_id, lambda: _replay(endpoint_id, since, by, reason)))


def _replay(endpoint_id: str, since: datetime, by: str, reason: str) -> int:
    with brief_transaction():
        _lock_receptive(endpoint_id)
        count = WebhookDelivery.objects.filter(_made_since(endpoint_id, since)).count()
        if not count:
            raise OperationRefused(f"{endpoint_id} has no events since {format_instant(since)}.")
        if count > MOST_REPLAYED:
            raise OperationRefused(f"That is {count} events; at most {MOST_REPLAYED} go at once. Name a later moment.")
        _begin_anew(_made_since(endpoint_id, since))
        record_endpoint("replayed", endpoint_id, by=by, reason=reason, after={"since": since, "events": count})
    return count


def count_since(endpoint_id: str, since: datetime) -> int:
    """Count the events that `replay_since` would send now."""
    made = WebhookDelivery.objects.filter(_made_since(endpoint_id, since))
    return sum(in_groups_of(endpoint_id, made.count))


def send_test_event(endpoint_id: str, *, by: str, reason: str = "") -> WebhookEvent:
    """Write a test event, about no payment, to see whether it is delivered.

    Raises:
        OperationRefused: its endpoint receives no events now.
    """
    with within(group_of_endpoint(endpoint_id)), brief_transaction():
        event = make_test_event(_lock_receptive(endpoint_id), utc_now())
        event.save(force_insert=True)
        record_endpoint("tested", endpoint_id, by=by, reason=reason, after={"event": event.id})
    return event


def reveal_secrets(endpoint_id: str, *, by: str, reason: str = "") -> dict[str, datetime | None]:
    """Return the secrets that sign deliveries to an endpoint now, and until when: the current one first, without end.

    Call it in the transaction whose commit comes before they are shown: nothing is shown that was not recorded.

    Raises:
        OperationRefused: there is no endpoint, or they cannot be read with the keys in the environment.
    """
    with within(group_of_endpoint(endpoint_id)), brief_transaction():
        endpoint = lock_endpoint(endpoint_id)
        record_endpoint("secret_shown", endpoint_id, by=by, reason=reason)
        try:
            return {as_text(secret): ends_at for secret, ends_at in secrets_in_force(endpoint, utc_now()).items()}
        except SecretUnreadable as error:
            raise OperationRefused(str(error)) from error


def rotate_secret(endpoint_id: str, *, by: str, reason: str = "") -> WebhookEndpoint:
    """Make a new secret. For 24 hours deliveries are signed with the previous one, too.

    Raises:
        OperationRefused: there is no endpoint.
    """
    with within(group_of_endpoint(endpoint_id)), brief_transaction():
        endpoint = lock_endpoint(endpoint_id)
        rotate(endpoint, utc_now())
        record_endpoint("secret_rotated", endpoint_id, by=by, reason=reason)
    return endpoint


def reseal_secrets(*, by: str, reason: str = "") -> int:
    """Encrypt all secrets under the newest key, so that no earlier one is needed any more; returns how many were not.

    Raises:
        OperationRefused: no key opens one of them: nothing is changed.
    """
    with transaction.atomic():
        rows = WebhookSecret.objects.select_for_update(no_key=True).order_by("pk")
        try:
            count = sum(reseal(row) for row in rows)
        except SecretUnreadable as error:
            raise OperationRefused(f"{error} Name that key in WEBHOOK_SECRETS_KEY_FALLBACKS, or rotate it.") from error
        after = {"count": count}
        record("webhook.secrets_resealed", subject_type="webhooks", subject="all", by=by, reason=reason, after=after)
    return count


def _lock_receptive(endpoint_id: str) -> WebhookEndpoint:
    """Lock an endpoint that may receive events now. What staff send does not wait for a `Retry-After`."""
    endpoint = lock_endpoint(endpoint_id)
    if endpoint.agent_id is None and endpoint.service.status != ServiceStatus.APPROVED:
        raise OperationRefused(f"{endpoint_id} is {endpoint.service.status}: only an approved service receives events.")
    if endpoint.its_url is None:
        raise OperationRefused(f"{endpoint_id} has no webhook URL.")
    if endpoint.disabled_at is not None:
        raise OperationRefused(f"The endpoint of {endpoint_id} is disabled: enable it first.")
    WebhookEndpoint.objects.filter(pk=endpoint_id).update(held_until=None)
    return endpoint


def _made_since(endpoint_id: str, since: datetime) -> Q:
    return Q(endpoint_id=endpoint_id, event__created_at__gte=since) & ~Q(event__type=TEST_EVENT)


def _begin_anew(which: Q) -> None:
    # A worker that attempts one of these loses its claim: the result of its attempt is logged, no more.
    WebhookDelivery.objects.filter(which).update(
        state=DeliveryState.WAITING,
        attempts=0,
        is_by_hand=True,
        next_attempt_at=utc_now(),
        claim=None,
        claimed_until=None,
    )
