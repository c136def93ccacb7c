"""The endpoint of a service, made and moved by registering a webhook URL, or of an agent; enabled by finance staff.

Endpoints are locked before their deliveries, here and everywhere.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from django.db.models import Q

from foundation.database import brief_transaction
from foundation.groups import WHOLE, Group, any_group, every_group, group_here, group_of, within
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from services.models import DeliveryState, Service, WebhookDelivery, WebhookEndpoint, agent_of_endpoint
from services.webhooks.signing_secrets import forget_secrets
from services.webhooks.url_checks import host_of
from staff.audit import record

T = TypeVar("T")


def update_endpoint(service: Service, earlier_url: str | None, now: datetime) -> None:
    """Let a service receive events at the webhook URL that it registers; reset an endpoint that was disabled, or moves.

    The caller holds the service's row. On another host, or on none, the secrets of the previous host end at once:

    - without a day of both: whoever runs the previous host knows them and could sign for the new one; whoever runs the
      new one could forward to the previous one what is signed with them;
    - at registration, not at approval: staff may show the secret to its new owner before they approve;
    - for good: if the earlier URL comes back, its host may be somebody else's.

    Ports are not compared: the certificate, by which a receiver is known, names the host.
    """
    if service.webhook_url is not None:
        WebhookEndpoint.objects.get_or_create(id=service.pk)
    if (endpoint := find_locked(service.id)) is not None:
        move_endpoint(endpoint, earlier_url, service.webhook_url, now)


def follow_endpoint(service: Service, earlier_url: str | None, now: datetime) -> None:
    """Let the same follow in another group of agents, whose events go to the same place."""
    with brief_transaction():
        endpoint = find_locked(service.id)
        url = service.webhook_url
        if endpoint is not None and url is not None and (url != earlier_url or endpoint.disabled_at is not None):
            _reopen(endpoint, now)


def move_endpoint(endpoint: WebhookEndpoint, earlier_url: str | None, url: str | None, now: datetime) -> None:
    """Let what `update_endpoint` says follow from another URL of an endpoint, whose row the caller holds."""
    earlier, host = host_of(earlier_url), host_of(url)
    if host != earlier:
        why = f"The webhook URL's host was {earlier or 'none'}, and is {host or 'none'} now."
        forget_secrets(endpoint, why, now)
    if url is not None and (url != earlier_url or endpoint.disabled_at is not None):
        _reopen(endpoint, now)


def hold_endpoint(service_id: str) -> None:
    """Hold the endpoint of a service, if there is one, until the transaction ends."""
    WebhookEndpoint.objects.select_for_update(no_key=True).filter(pk=service_id).first()


def enable_endpoint(endpoint_id: str, *, by: str, reason: str = "") -> WebhookEndpoint:
    """Enable a disabled endpoint: its waiting deliveries are due now.

    Raises:
        OperationRefused: there is none, or it is enabled.
    """

    def enable() -> WebhookEndpoint:
        with brief_transaction():
            endpoint = lock_endpoint(endpoint_id)
            if endpoint.disabled_at is None:
                raise OperationRefused(f"The endpoint of {endpoint_id} is enabled.")
            before = {"disabledAt": endpoint.disabled_at, "disabledReason": endpoint.disabled_reason}
            _reopen(endpoint, utc_now())
            record_endpoint("enabled", endpoint_id, by=by, reason=reason, before=before)
        return endpoint

    return in_groups_of(endpoint_id, enable)[0]


def group_of_endpoint(endpoint_id: str) -> Group:
    """Name the group of the agent whose endpoint it is; of a payee's, which has events of all groups, any of them."""
    if group_here() != WHOLE:
        return group_here()
    agent = agent_of_endpoint(endpoint_id)
    return any_group() if agent is None else group_of(agent)


def in_groups_of(endpoint_id: str, act: Callable[[], T]) -> list[T]:
    """Do something to an endpoint in each group that has events for it; returns what came of it in each.

    Raises:
        OperationRefused: each group refuses it; of the last one.
    """
    groups = every_group() if agent_of_endpoint(endpoint_id) is None else [group_of_endpoint(endpoint_id)]
    done: list[T] = []
    for group in groups:
        try:
            with within(group):
                done.append(act())
        except OperationRefused:
            if not done and group == groups[-1]:
                raise
    return done


def record_endpoint(what: str, endpoint_id: str, **how: Any) -> None:
    """Record what was done to an endpoint, as `staff.audit.record` does."""
    record(f"webhook.{what}", subject_type="webhook", subject=endpoint_id, **how)


def lock_endpoint(endpoint_id: str) -> WebhookEndpoint:
    """Lock and return an endpoint.

    Raises:
        OperationRefused: there is none.
    """
    endpoint = find_locked(endpoint_id)
    if endpoint is None:
        raise OperationRefused(f"{endpoint_id} has no webhook endpoint.")
    return endpoint


def find_locked(endpoint_id: str) -> WebhookEndpoint | None:
    """Lock and return an endpoint; None: there is none."""
    # The service is read after the lock was taken: a join would show it as it was before the wait.
    rows = WebhookEndpoint.objects.select_for_update(no_key=True).prefetch_related("service")
    return rows.filter(pk=endpoint_id).first()


def _reopen(endpoint: WebhookEndpoint, now: datetime) -> None:
    endpoint.disabled_at, endpoint.disabled_reason = None, ""
    endpoint.failing_since = endpoint.succeeded_at = endpoint.held_until = None
    endpoint.save()
    # Attempts that are under way belong to the earlier state: they are logged, and change nothing.
    attempted = Q(attempts__gt=0) | Q(claim__isnull=False) | Q(next_attempt_at__gt=now)
    waiting = WebhookDelivery.objects.filter(attempted, endpoint=endpoint, state=DeliveryState.WAITING)
    waiting.update(attempts=0, next_attempt_at=now, claim=None, claimed_until=None)
