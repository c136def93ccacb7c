"""Claim deliveries for an attempt: rows are the queue.

A claim is a promise to attempt a delivery once and to record the result. It lapses after `CLAIM_LASTS`, so that another
worker takes over from one that died: an event may be sent twice, but is never lost. Endpoints are locked before their
deliveries, here and everywhere.
"""

import logging
from collections.abc import Container, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from django.db import connection
from django.db.models import (
    Case,
    Count,
    Exists,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
    prefetch_related_objects,
)
from django.db.models.functions import Coalesce, Greatest

from foundation.database import brief_transaction
from services.models import (
    RECEIVES_EVENTS,
    DeliveryState,
    Outcome,
    Service,
    ServiceStatus,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)
from services.webhooks.results import ClaimedDelivery
from services.webhooks.schedule import QUIET_AFTER
from services.webhooks.signing_secrets import SecretUnreadable, secrets_in_force

log = logging.getLogger(__name__)

# Longer than an attempt and its recording take.
CLAIM_LASTS = timedelta(seconds=30)
# How many deliveries an endpoint gets at the same time: one until it has answered once, and while it fails.
AT_ONCE, AT_ONCE_ON_TRIAL = 4, 1
# A claimed delivery: its event, its endpoint, whether staff sent it, and when an earlier claim of it lapsed.
Row = tuple[str, str, bool, datetime | None]
_LEAVE_UNREADABLE = timedelta(minutes=1)

# For all endpoints in one statement, which the ORM cannot say: the oldest due deliveries of each, up to what it has
# room for. It counts under the endpoints' locks, after they were taken, so that no two workers fill the same room.
# MATERIALIZED: selected once. A plan that asked again would skip what it has just claimed, and claim more.
_CLAIM = """
WITH due AS MATERIALIZED (
        SELECT event_id, lapsed_at
          FROM unnest(%(endpoints)s::varchar[], %(at_once)s::int[]) AS endpoint (id, at_once)
         CROSS JOIN LATERAL (
               SELECT event_id, claimed_until AS lapsed_at
                 FROM services_webhookdelivery
                WHERE endpoint_id = endpoint.id AND state = 'waiting' AND next_attempt_at <= %(now)s
                  AND (claim IS NULL OR claimed_until <= %(now)s)
                ORDER BY next_attempt_at
                LIMIT greatest(0, endpoint.at_once - (
                      SELECT count(*) FROM services_webhookdelivery
                       WHERE endpoint_id = endpoint.id AND claim IS NOT NULL AND claimed_until > %(now)s))
                  FOR NO KEY UPDATE SKIP LOCKED
         ) AS waiting
         LIMIT %(limit)s)
UPDATE services_webhookdelivery AS delivery
   SET claim = %(claim)s, claimed_until = %(until)s
  FROM due
 WHERE delivery.event_id = due.event_id
RETURNING delivery.event_id, delivery.endpoint_id, delivery.is_by_hand, due.lapsed_at
"""


def claim_deliveries(limit: int, now: datetime) -> list[ClaimedDelivery]:
    """Claim what is due, at most `limit`, from the endpoints that were served longest ago."""
    claim = uuid4()
    with brief_transaction():
        endpoints = {endpoint.pk: endpoint for endpoint in _lock_endpoints(limit, now)}
        urls = _read_urls(endpoints.values())
        rows = _claim(claim, [endpoints[pk] for pk in endpoints if pk in urls], limit, now)
        _record_lapsed(rows, urls)
        # Only of those that get something now: to read and decrypt the others' took a fifth of a worker's time.
        secrets = _read_secrets([endpoints[pk] for pk in {row[1] for row in rows}], now)
        rows = _give_back_unsigned(claim, rows, secrets)
        _note_served(rows, now)
    payloads = dict(WebhookEvent.objects.filter(pk__in=[row[0] for row in rows]).values_list("pk", "payload"))
    return [
        ClaimedDelivery(
            event_id=event_id,
            endpoint_id=endpoint_id,
            url=urls[endpoint_id],
            body=payloads[event_id].encode(),
            claim=claim,
            is_by_hand=is_by_hand,
            secrets=secrets[endpoint_id],
        )
        for event_id, endpoint_id, is_by_hand, _ in rows
    ]


def may_receive_now(now: datetime) -> Q:
    """Select the endpoints that may receive events now: enabled, past their Retry-After; see RECEIVES_EVENTS."""
    return RECEIVES_EVENTS & Q(disabled_at=None) & ~Q(held_until__gt=now)


def _lock_endpoints(limit: int, now: datetime) -> QuerySet[WebhookEndpoint]:
    """Lock endpoints that have something due and room for it; skip those that another worker is claiming from."""
    of_endpoint = WebhookDelivery.objects.filter(endpoint=OuterRef("pk"))
    in_flight = of_endpoint.filter(claim__isnull=False, claimed_until__gt=now).order_by().values("endpoint")
    due = of_endpoint.filter(Q(claim=None) | Q(claimed_until__lte=now), state=DeliveryState.WAITING)
    endpoints = WebhookEndpoint.objects.select_for_update(skip_locked=True, no_key=True, of=("self",))
    return (
        endpoints.annotate(
            at_once=Case(When(failing_since=None, succeeded_at__isnull=False, then=AT_ONCE), default=AT_ONCE_ON_TRIAL),
            in_flight=Coalesce(Subquery(in_flight.annotate(count=Count("pk")).values("count")), Value(0)),
        )
        .filter(may_receive_now(now), Exists(due.filter(next_attempt_at__lte=now)), in_flight__lt=F("at_once"))
        .order_by(Greatest("served_at", "held_until").asc(nulls_first=True))[:limit]
    )


def _read_urls(endpoints: Iterable[WebhookEndpoint]) -> dict[str, str]:
    """Tell where events of these go; who receives none has no URL. Services are read now: a join shows what was."""
    urls = {one.pk: one.url for one in endpoints if one.url is not None}
    services = [one.pk for one in endpoints if one.agent_id is None]
    receiving = Service.objects.filter(pk__in=services, status=ServiceStatus.APPROVED, webhook_url__isnull=False)
    return urls | {pk: str(url) for pk, url in receiving.values_list("pk", "webhook_url")}


def _read_secrets(endpoints: list[WebhookEndpoint], now: datetime) -> dict[str, tuple[bytes, ...]]:
    prefetch_related_objects(endpoints, "secrets")
    secrets = {}
    for endpoint in endpoints:
        try:
            secrets[endpoint.pk] = tuple(secrets_in_force(endpoint, now))
        except SecretUnreadable as error:
            log.error("Deliveries wait: %s Name that key in WEBHOOK_SECRETS_KEY_FALLBACKS.", error)  # noqa: TRY400 - the trace says no more
            WebhookEndpoint.objects.filter(pk=endpoint.pk).update(held_until=now + _LEAVE_UNREADABLE)
    return secrets


def _give_back_unsigned(claim: UUID, rows: list[Row], secrets: Container[str]) -> list[Row]:
    """Let go of what cannot be signed; returns the others."""
    unsigned = [row[0] for row in rows if row[1] not in secrets]
    if unsigned:
        WebhookDelivery.objects.filter(pk__in=unsigned, claim=claim).update(claim=None, claimed_until=None)
    return [row for row in rows if row[1] in secrets]


def _claim(claim: UUID, endpoints: list[WebhookEndpoint], limit: int, now: datetime) -> list[Row]:
    parameters: dict[str, Any] = {
        "claim": claim,
        "until": now + CLAIM_LASTS,
        "endpoints": [endpoint.pk for endpoint in endpoints],
        "at_once": [endpoint.at_once for endpoint in endpoints],  # type: ignore[attr-defined] # annotated
        "now": now,
        "limit": limit,
    }
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, parameters)
        return list(cursor.fetchall())


def _note_served(rows: list[Row], now: datetime) -> None:
    # An endpoint that was not tried for days did not fail all that time. Attempts by staff do not count.
    tried = {endpoint_id for _, endpoint_id, is_by_hand, _ in rows if not is_by_hand}
    WebhookEndpoint.objects.filter(pk__in=tried, served_at__lt=now - QUIET_AFTER).update(failing_since=None)
    WebhookEndpoint.objects.filter(pk__in={row[1] for row in rows}).update(served_at=now)


def _record_lapsed(rows: list[Row], urls: Mapping[str, str]) -> None:
    """Log that a worker claimed these and died: the payee may have received the event, or not.

    None of them counts as an attempt of the schedule: workers that die repeatedly would use it up within minutes.
    """
    WebhookAttempt.objects.bulk_create(
        WebhookAttempt(
            delivery_id=event_id,
            endpoint_id=endpoint_id,
            started_at=lapsed_at - CLAIM_LASTS,
            url=urls[endpoint_id],
            outcome=Outcome.UNKNOWN,
            detail="The worker ended before it recorded the result.",
            is_by_hand=is_by_hand,
        )
        for event_id, endpoint_id, is_by_hand, lapsed_at in rows
        if lapsed_at is not None
    )
