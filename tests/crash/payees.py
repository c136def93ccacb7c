"""What payees do with an event: look at its signature. Long after it came, so its age is not looked at."""

from datetime import UTC, datetime

from standardwebhooks import Webhook

from services.webhooks.operations import reveal_secrets
from tests.services.webhooks.behaviours import Request


def is_signed(request: Request, service_id: str) -> bool:
    """Tell whether a request bears the signature that the secret of the service gives."""
    sent_at = datetime.fromtimestamp(int(request.header("webhook-timestamp") or 0), UTC)
    webhook_id, signatures = request.header("webhook-id") or "", (request.header("webhook-signature") or "").split()
    secrets = reveal_secrets(service_id, by="ann")
    return any(Webhook(one).sign(webhook_id, sent_at, request.body.decode()) in signatures for one in secrets)
