"""Webhooks: the event, its delivery, and the attempts at it.

An event is written in the transaction that made it true. The database gives it a delivery (`sql/deliveries.sql`), which
workers claim, attempt and record.
"""

import json
from datetime import datetime
from typing import Any, Self

from django.db import models
from django.db.models import Q

from policy.models import Agent
from services.models.endpoints import WebhookEndpoint
from services.models.payees import Service


class DeliveryState(models.TextChoices):
    WAITING = "waiting"  # for its first or its next attempt
    DELIVERED = "delivered"
    FAILED = "failed"  # the last attempt of the schedule failed, too


class Outcome(models.TextChoices):
    """The outcome of an attempt. Only `delivered` is success: an answer of 200 to 299, read in time."""

    DELIVERED = "delivered"
    STATUS = "status"  # any other status, redirects among them
    TIMEOUT = "timeout"
    CONNECTION = "connection"  # refused, reset, or what came was not HTTP
    TLS = "tls"
    DNS = "dns"
    BLOCKED_ADDRESS = "blocked_address"  # the name resolves to an address that is not public
    UNKNOWN = "unknown"  # the worker died before it recorded the outcome, or met a bug


class WebhookEvent(models.Model):
    """An event that a payee receives, or an agent's owner, written in the transaction that made it true."""

    id = models.CharField(primary_key=True, max_length=30, db_collation="C")
    service = models.ForeignKey(Service, on_delete=models.PROTECT, db_index=False, null=True)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, db_index=False, db_constraint=False, null=True)
    type = models.CharField(max_length=32)
    payload = models.TextField(help_text="The body to deliver: JSON.")
    created_at = models.DateTimeField()

    class Meta:
        ordering = ("id",)
        constraints = (
            models.CheckConstraint(
                name="webhook_event_has_one_receiver",
                condition=Q(service__isnull=False, agent=None) | Q(service=None, agent__isnull=False),
            ),
        )

    def __str__(self) -> str:
        return self.id

    @classmethod
    def of(cls, body: dict[str, Any], service: Service, at: datetime) -> Self:
        """Make the row of an event of a payee from its body; it is not saved."""
        return cls(service=service, **_content(body), created_at=at)

    @classmethod
    def of_agent(cls, body: dict[str, Any], agent_id: str, at: datetime) -> Self:
        """Make the row of an event of an agent's owner from its body; it is not saved."""
        return cls(agent_id=agent_id, **_content(body), created_at=at)


def _content(body: dict[str, Any]) -> dict[str, Any]:
    return {"id": body["id"], "type": body["type"], "payload": json.dumps(body, ensure_ascii=False)}


class WebhookDelivery(models.Model):
    """An event that has to be delivered. A worker that attempts it holds a claim, which lapses if the worker dies.

    `attempts` are those of the schedule that runs; `is_by_hand`: staff sent it, so failures are not held against the
    endpoint.
    """

    event = models.OneToOneField(WebhookEvent, primary_key=True, on_delete=models.CASCADE, related_name="delivery")
    endpoint = models.ForeignKey(WebhookEndpoint, on_delete=models.PROTECT, related_name="deliveries", db_index=False)
    state = models.CharField(max_length=10, choices=DeliveryState, default=DeliveryState.WAITING)
    attempts = models.PositiveSmallIntegerField(default=0)
    is_by_hand = models.BooleanField(default=False)
    next_attempt_at = models.DateTimeField(null=True, help_text="None once it is delivered or has failed.")
    claim = models.UUIDField(null=True)
    claimed_until = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True, help_text="First success.")

    class Meta:
        ordering = ("-event_id",)
        verbose_name_plural = "webhook deliveries"
        indexes = (
            models.Index(
                name="webhook_delivery_due",
                fields=("endpoint", "next_attempt_at"),
                condition=Q(state=DeliveryState.WAITING),
            ),
            models.Index(name="webhook_delivery_failed", fields=("endpoint",), condition=Q(state=DeliveryState.FAILED)),
            models.Index(name="webhook_delivery_in_flight", fields=("endpoint",), condition=Q(claim__isnull=False)),
            models.Index(name="webhook_delivery_of_endpoint", fields=("endpoint", "event")),
        )
        constraints = (
            models.CheckConstraint(name="webhook_delivery_state_known", condition=Q(state__in=DeliveryState.values)),
            models.CheckConstraint(
                name="webhook_delivery_waits_for_a_moment",
                condition=Q(state=DeliveryState.WAITING, next_attempt_at__isnull=False)
                | (~Q(state=DeliveryState.WAITING) & Q(next_attempt_at=None, claim=None)),
            ),
            models.CheckConstraint(
                name="webhook_delivery_claim_lapses",
                condition=Q(claim=None, claimed_until=None) | Q(claim__isnull=False, claimed_until__isnull=False),
            ),
        )

    def __str__(self) -> str:
        return self.event_id


class WebhookAttempt(models.Model):
    """One attempt at a delivery: when, where, how long it took and what was answered. Never changed."""

    delivery = models.ForeignKey(WebhookDelivery, on_delete=models.CASCADE, related_name="log")
    endpoint = models.ForeignKey(WebhookEndpoint, on_delete=models.PROTECT, related_name="log", db_index=False)
    started_at = models.DateTimeField(db_index=True)
    duration_ms = models.PositiveIntegerField(null=True)
    url = models.CharField(max_length=2048)
    outcome = models.CharField(max_length=16, choices=Outcome)
    status = models.PositiveSmallIntegerField(null=True, help_text="HTTP status, if there was an answer.")
    detail = models.CharField(max_length=200, blank=True, help_text="What went wrong, in words.")
    answer = models.TextField(blank=True, help_text="The first 2 KiB of the answer's body.")
    is_by_hand = models.BooleanField(default=False)

    class Meta:
        ordering = ("-id",)
        indexes = (models.Index(name="webhook_attempt_of_endpoint", fields=("endpoint", "-id")),)
        constraints = (
            models.CheckConstraint(name="webhook_attempt_outcome_known", condition=Q(outcome__in=Outcome.values)),
        )

    def __str__(self) -> str:
        return f"{self.delivery_id} at {self.started_at:%Y-%m-%d %H:%M:%S}"
