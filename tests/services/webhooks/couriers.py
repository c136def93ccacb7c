"""Couriers at work beside a test, and events for them."""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.db import connections

from foundation.kernel.ids import new_id
from foundation.kernel.times import format_instant, utc_now
from services.models import DeliveryState, Service, WebhookDelivery, WebhookEndpoint, WebhookEvent
from services.webhooks.courier import Courier
from tests.crash.installation import wait_until
from tests.support.factories import make_service


async def nowhere(host: str, port: int) -> Sequence[str]:
    """Find no name: the endpoints of other tests are not reached. Those of the tests here are addresses."""
    raise OSError(f"{host}:{port} is not looked up.")


def forget_other_tests() -> None:
    """Disable what there is: receivers of earlier tests are gone, and their ports may be given to those of this one."""
    others = WebhookEndpoint.objects.filter(disabled_at=None)
    others.update(disabled_at=utc_now(), disabled_reason="Its test is over.")


def make_courier(**options: Any) -> Courier:
    """Make a courier for whom time stands still: no claim lapses, and what failed is not due again.

    It stands a minute ahead: what is written while the courier works is due at once.
    """
    now = utc_now() + timedelta(minutes=1)
    return Courier(**{"lookup": nowhere, "clock": lambda: now, "timeout_s": 120, **options})


def make_payee(url: str) -> Service:
    """Make an approved service with a receiver."""
    return make_service(webhook_url=url)


def make_event(service: Service) -> str:
    """Write an event that is due at once; returns its id."""
    now = utc_now()
    event_id = new_id("evt", now)
    data = {"service": service.pk}
    payload = {"id": event_id, "type": "payment.approved", "timestamp": format_instant(now), "data": data}
    WebhookEvent.objects.create(
        id=event_id, service=service, type="payment.approved", payload=json.dumps(payload), created_at=now
    )
    return event_id


@contextmanager
def at_work(*couriers: Courier) -> Iterator[list[Future[int]]]:
    """Let couriers deliver, each in a thread, while the block runs; wait for them behind it."""
    with ThreadPoolExecutor(len(couriers)) as pool:
        shifts = [pool.submit(_deliver, courier) for courier in couriers]
        yield shifts
    for shift in shifts:
        shift.result()


def are_delivered(events: Sequence[str]) -> bool:
    """Tell whether all of these are known to have been delivered."""
    return bool(deliveries(events).filter(state=DeliveryState.DELIVERED).count() == len(events))


def wait_until_delivered(events: Sequence[str]) -> None:
    wait_until(lambda: are_delivered(events), "these are delivered")


def deliveries(events: Sequence[str]) -> Any:
    return WebhookDelivery.objects.filter(pk__in=events)


def _deliver(courier: Courier) -> int:
    try:
        return courier.deliver()
    finally:
        connections.close_all()
