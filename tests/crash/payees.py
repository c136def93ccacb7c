"""What payees do with an event: look at its signature. Long after it came, so its age is not looked at."""

from collections.abc import Iterable
from datetime import UTC, datetime

from standardwebhooks import Webhook

from services.webhooks.operations import reveal_secrets
from tests.services.webhooks.behaviours import Request


def secrets_of(service_id: str) -> list[str]:
    """Return what signs deliveries to a service now. To ask is recorded each time."""
    return [*reveal_secrets(service_id, by="ann")]


def is_signed(request: Request, secrets: Iterable[str]) -> bool:
    """Tell whether a request bears the signature that one of the secrets gives."""
    sent_at = datetime.fromtimestamp(int(request.header("webhook-timestamp") or 0), UTC)
    webhook_id, signatures = request.header("webhook-id") or "", (request.header("webhook-signature") or "").split()
    return any(Webhook(one).sign(webhook_id, sent_at, request.body.decode()) in signatures for one in secrets)
