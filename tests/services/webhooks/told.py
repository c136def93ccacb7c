"""A payee that is told things at moments of the test's own, without a network: claims, results, and what they leave."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

from foundation.kernel.assets import Asset
from foundation.kernel.ids import new_id
from services.models import Outcome, Service, WebhookAttempt, WebhookDelivery, WebhookEndpoint, WebhookEvent
from services.operations import Registration, register_service
from services.webhooks.claims import claim_deliveries
from services.webhooks.records import record_results
from services.webhooks.results import ClaimedDelivery, Result
from tests.support.factories import make_service, new_name

SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
REFUSED: dict[str, Any] = {"outcome": Outcome.STATUS, "status": 500}
GONE: dict[str, Any] = {"outcome": Outcome.STATUS, "status": 410}
_eras = itertools.count(1)


def new_era() -> datetime:
    """Find a moment long before that of every other test: nothing of theirs is due then."""
    return datetime(2020, 1, 1, tzinfo=UTC) - 30 * DAY * next(_eras)


class Payee:
    """An approved service with a webhook; `at` is when it hears of something first."""

    def __init__(self, at: datetime | None = None, *, works: bool = False, **service: Any) -> None:
        self.at = at or new_era()
        self.url = f"https://{new_name('payee')}.example/hook"
        self.service = make_service(**({"webhook_url": self.url} | service))
        self.id = self.service.id
        if works:
            self.change_endpoint(succeeded_at=self.at)

    def hear(self, count: int = 1, *, at: datetime | None = None, payload: str = '{"a": 1}') -> list[str]:
        """Let events be written, a second after each other; returns their ids."""
        first = at or self.at
        return [self._write(first + number * SECOND, payload) for number in range(count)]

    def claim(self, now: datetime | None = None, limit: int = 1000) -> list[ClaimedDelivery]:
        return [one for one in claim_deliveries(limit, now or self.at) if one.endpoint_id == self.id]

    def attempt(self, now: datetime | None = None, *, chance: float = 0.5, **result: Any) -> str:
        """Claim the one delivery that is due and record a result; returns the event's id."""
        (claimed,) = self.claim(now)
        record(now or self.at, result_of(claimed, now or self.at, **result), chance=chance)
        return claimed.event_id

    def register_again(self, url: str | None = None) -> None:
        """Register as before, but for the URL."""
        service = self.service
        register_service(
            Registration(service.id, service.name, service.recipient, Asset(service.asset), url or self.url)
        )

    @property
    def endpoint(self) -> WebhookEndpoint:
        return WebhookEndpoint.objects.get(pk=self.id)

    def change_endpoint(self, **columns: Any) -> None:
        WebhookEndpoint.objects.filter(pk=self.id).update(**columns)

    def change_service(self, **columns: Any) -> None:
        Service.objects.filter(pk=self.id).update(**columns)

    def _write(self, at: datetime, payload: str) -> str:
        event_id = new_id("evt", at)
        WebhookEvent.objects.create(
            id=event_id, service=self.service, type="payment.approved", payload=payload, created_at=at
        )
        return event_id


def result_of(claimed: ClaimedDelivery, at: datetime, **result: Any) -> Result:
    """Make a result, a success unless told otherwise."""
    values: dict[str, Any] = {"outcome": Outcome.DELIVERED, "status": 200, "duration_ms": 12} | result
    return Result(delivery=claimed, started_at=at, **values)


def record(now: datetime, *results: Result, chance: float = 0.5) -> None:
    """Record results with the chance that leaves each delay as the schedule has it, unless told otherwise."""
    record_results(results, now, lambda: chance)


def delivery_of(event_id: str) -> WebhookDelivery:
    return WebhookDelivery.objects.get(pk=event_id)


def due_at(event_id: str) -> datetime:
    """Tell when something that waits is due."""
    moment = delivery_of(event_id).next_attempt_at
    assert moment is not None
    return moment


def log_of(event_id: str) -> list[WebhookAttempt]:
    """List the attempts at an event, oldest first."""
    return list(WebhookAttempt.objects.filter(delivery=event_id).order_by("id"))


def outcomes_of(event_id: str) -> list[str]:
    return [attempt.outcome for attempt in log_of(event_id)]
