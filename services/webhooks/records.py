"""Record the results of attempts: in the log, in the delivery's schedule and in the endpoint's state.

An endpoint is judged by attempts of its schedule only: failures of what staff send again are not held against it.
Source: docs/contract.md, "Webhooks"; docs/background.md, "Traps", 17.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from http import HTTPStatus

from django.db.models import F

from foundation.database import brief_transaction
from foundation.kernel.counters import WEBHOOK_ATTEMPT_SECONDS, WEBHOOK_ATTEMPTS, WEBHOOK_DELIVERY_SECONDS
from foundation.kernel.ids import time_of
from services.models import DeliveryState, Outcome, WebhookAttempt, WebhookDelivery, WebhookEndpoint
from services.webhooks.attempt_lines import log_attempt
from services.webhooks.results import Result
from services.webhooks.schedule import GIVE_UP_AFTER, next_delay, read_retry_after

log = logging.getLogger(__name__)

# A success is written only if the last one that was written is this old: most of them change no row.
_NEWS_AFTER = timedelta(minutes=1)
_JUDGED = ["disabled_at", "disabled_reason", "failing_since", "succeeded_at", "held_until"]
_GONE = "It answered 410 Gone."
_ONLY_FAILURES = "Nothing but failures for five days."


def record_results(results: Sequence[Result], now: datetime, chance: Callable[[], float]) -> None:
    """Log attempts and plan what follows, in the order in which they ended.

    A result whose claim was lost is logged, and changes nothing else: another worker has the delivery, or staff sent it
    again, or the payee registered another URL.
    """
    with brief_transaction():
        endpoints = _lock_endpoints({result.delivery.endpoint_id for result in results})
        deliveries = _lock_deliveries([result.delivery.event_id for result in results])
        WebhookAttempt.objects.bulk_create(_log_row(result) for result in results)
        before = {pk: _judgement(endpoint) for pk, endpoint in endpoints.items()}
        attempts = {pk: delivery.attempts + 1 for pk, delivery in deliveries.items()}
        delivered, retried = [], []
        for result in results:
            endpoint, delivery = endpoints[result.delivery.endpoint_id], deliveries[result.delivery.event_id]
            if delivery.claim != result.delivery.claim:
                continue
            _judge(endpoint, result, now)
            if result.outcome == Outcome.DELIVERED:
                delivered.append(delivery.pk)
            else:
                _plan_next(delivery, endpoint, now, chance)
                retried.append(delivery)
        _write_delivered(delivered, now)
        WebhookDelivery.objects.bulk_update(retried, ["state", "attempts", "next_attempt_at", "claim", "claimed_until"])
        changed = [endpoint for pk, endpoint in endpoints.items() if _judgement(endpoint) != before[pk]]
        WebhookEndpoint.objects.bulk_update(changed, _JUDGED)
    _tell(results, attempts, now)


def _tell(results: Sequence[Result], attempts: Mapping[str, int], now: datetime) -> None:
    """Count attempts, and write a line for each; `attempts`: which one of its delivery it was."""
    for one in results:
        log_attempt(one, attempts[one.delivery.event_id])
        WEBHOOK_ATTEMPTS.add(one.outcome)
        WEBHOOK_ATTEMPT_SECONDS.observe(one.duration_ms / 1000)
        if one.outcome == Outcome.DELIVERED and not one.delivery.is_by_hand:
            WEBHOOK_DELIVERY_SECONDS.observe((now - time_of(one.delivery.event_id)).total_seconds())


def _lock_endpoints(pks: set[str]) -> dict[str, WebhookEndpoint]:
    rows = WebhookEndpoint.objects.select_for_update(no_key=True)
    return {row.pk: row for row in rows.filter(pk__in=pks).order_by("pk")}


def _lock_deliveries(pks: Sequence[str]) -> dict[str, WebhookDelivery]:
    rows = WebhookDelivery.objects.select_for_update(no_key=True).filter(pk__in=pks)
    return {row.pk: row for row in rows.order_by("pk")}


def _log_row(result: Result) -> WebhookAttempt:
    return WebhookAttempt(
        delivery_id=result.delivery.event_id,
        endpoint_id=result.delivery.endpoint_id,
        started_at=result.started_at,
        duration_ms=result.duration_ms,
        url=result.delivery.url,
        outcome=result.outcome,
        status=result.status,
        detail=result.detail,
        answer=result.answer,
        is_by_hand=result.delivery.is_by_hand,
    )


def _judge(endpoint: WebhookEndpoint, result: Result, now: datetime) -> None:
    """Update the endpoint's state by the result of an attempt."""
    if result.outcome == Outcome.UNKNOWN:  # our own mistake is not held against it
        return
    if result.outcome == Outcome.DELIVERED:
        endpoint.failing_since = None
        if endpoint.succeeded_at is None or now - endpoint.succeeded_at > _NEWS_AFTER:
            endpoint.succeeded_at = now
        return
    wait = read_retry_after(result.retry_after, now)
    if wait is not None:
        endpoint.held_until = max(now + wait, endpoint.held_until or now)
    if result.status == HTTPStatus.GONE:
        _disable(endpoint, _GONE, now)
    if not result.delivery.is_by_hand:
        endpoint.failing_since = endpoint.failing_since or now
        if now - endpoint.failing_since >= GIVE_UP_AFTER:
            _disable(endpoint, _ONLY_FAILURES, now)


def _disable(endpoint: WebhookEndpoint, reason: str, now: datetime) -> None:
    if endpoint.disabled_at is None:
        endpoint.disabled_at, endpoint.disabled_reason = now, reason
        log.warning("The webhook endpoint of %s is disabled. %s", endpoint.pk, reason)


def _plan_next(
    delivery: WebhookDelivery, endpoint: WebhookEndpoint, now: datetime, chance: Callable[[], float]
) -> None:
    delivery.attempts += 1
    delivery.claim = delivery.claimed_until = None
    delay = next_delay(delivery.attempts, chance)
    if delay is None:
        delivery.state, delivery.next_attempt_at = DeliveryState.FAILED, None
    else:
        delivery.next_attempt_at = max(now + delay, endpoint.held_until or now)


def _write_delivered(pks: list[str], now: datetime) -> None:
    rows = WebhookDelivery.objects.filter(pk__in=pks)
    rows.filter(delivered_at=None).update(delivered_at=now)
    rows.update(
        state=DeliveryState.DELIVERED,
        attempts=F("attempts") + 1,
        next_attempt_at=None,
        claim=None,
        claimed_until=None,
    )


def _judgement(endpoint: WebhookEndpoint) -> tuple[object, ...]:
    return endpoint.disabled_at, endpoint.failing_since, endpoint.succeeded_at, endpoint.held_until
