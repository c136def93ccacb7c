"""Payees, their registrations, the events that are sent to them, and the results."""

from services.models.endpoints import (
    RECEIVES_EVENTS,
    WebhookEndpoint,
    WebhookSecret,
    agent_of_endpoint,
    endpoint_of_agent,
)
from services.models.payees import Service, ServiceStatus
from services.models.registrations import RegistrationRecord, ServiceDecision
from services.models.webhooks import (
    DeliveryState,
    Outcome,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEvent,
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
    "agent_of_endpoint",
    "endpoint_of_agent",
]
