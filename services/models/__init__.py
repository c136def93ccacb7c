"""Payees, the events that are told to them, and how the telling went."""

from services.models.payees import TOLD, Service, ServiceStatus
from services.models.webhooks import (
    DeliveryState,
    Outcome,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
    WebhookSecret,
)

__all__ = [
    "TOLD",
    "DeliveryState",
    "Outcome",
    "Service",
    "ServiceStatus",
    "WebhookAttempt",
    "WebhookDelivery",
    "WebhookEndpoint",
    "WebhookEvent",
    "WebhookSecret",
]
