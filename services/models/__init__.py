"""Payees, their registrations, the events that are sent to them, and the results."""

from services.models.payees import RECEIVES_EVENTS, Service, ServiceStatus
from services.models.registrations import RegistrationRecord, ServiceDecision
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
    "RECEIVES_EVENTS",
    "DeliveryState",
    "Outcome",
    "RegistrationRecord",
    "Service",
    "ServiceDecision",
    "ServiceStatus",
    "WebhookAttempt",
    "WebhookDelivery",
    "WebhookEndpoint",
    "WebhookEvent",
    "WebhookSecret",
]
