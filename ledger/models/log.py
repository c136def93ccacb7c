"""The decision log, which is also the receipts and the idempotency record; append-only."""

import json
from datetime import datetime
from typing import Any

from django.db import models
from django.db.models import Q

from policy.fields import AmountField
from policy.models import Agent


class Result(models.TextChoices):
    APPROVED = "approved"
    BLOCKED = "blocked", "Refused"
    HELD = "held", "Held for approval"


class LogEntry(models.Model):
    """One decision. Its id sorts by time and, within an agent, in the order of the hash chain.

    Where an agent's clock was repaired, the chain continues from an entry that is dated in the future: its order is
    that of `clock_repairs`, then of time. `refused_request` lets the same 503 be answered again without another entry.
    Neither is part of the receipt.

    A held decision has the id of the payment that it may become, and its idempotency key; the one that ends it
    (`Hold.final_entry`) has neither the key nor another payment.

    `spent_total` is the agent's running total of approved spend after this entry. The difference of two totals is the
    spend between two moments, without adding up the entries in between.
    """

    id = models.CharField(primary_key=True, max_length=30, db_collation="C")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, db_index=False)
    service = models.CharField(max_length=255, help_text="As it was asked for; it may not exist.")
    amount = models.CharField(max_length=40, help_text="As it was written.")
    asset = models.CharField(max_length=8)
    result = models.CharField(max_length=8, choices=Result)
    rule = models.CharField(max_length=32)
    created_at = models.DateTimeField()
    reason = models.TextField(help_text="Verbatim.")
    metadata_json = models.TextField(null=True)  # noqa: DJ001 - null: none was sent
    policy_revision = models.PositiveIntegerField()
    payment_id = models.CharField(max_length=30, null=True)  # noqa: DJ001 - null: nothing was paid
    tx = models.CharField(max_length=100, null=True)  # noqa: DJ001 - null: nothing was paid, or the payee takes it
    explanation_json = models.TextField()
    hash = models.CharField(max_length=64)
    previous_hash = models.CharField(max_length=64)
    signature = models.CharField(max_length=100)
    key_id = models.CharField(max_length=64)
    idempotency_key = models.CharField(max_length=255, null=True)  # noqa: DJ001 - null: a 503, evaluated afresh
    fingerprint = models.BinaryField(max_length=32, null=True)
    spent_total = AmountField()
    clock_repairs = models.SmallIntegerField(null=True)  # of the agent, before this entry; null: none
    refused_request = models.CharField(max_length=64, null=True)  # noqa: DJ001 - null: it is no 503

    class Meta:
        ordering = ("-id",)
        verbose_name = "decision"  # to people
        constraints = (
            models.CheckConstraint(name="log_result_known", condition=Q(result__in=Result.values)),
            models.CheckConstraint(
                name="log_only_approved_pays",
                condition=Q(result=Result.APPROVED, payment_id__isnull=False)
                | Q(result=Result.BLOCKED, payment_id__isnull=True, tx__isnull=True)
                | Q(result=Result.HELD, payment_id__isnull=False, tx__isnull=True),
            ),
            models.UniqueConstraint(
                name="log_one_decision_per_key",
                fields=("agent", "idempotency_key"),
                condition=Q(idempotency_key__isnull=False),
            ),
        )
        indexes = (
            models.Index(name="log_by_agent", fields=("agent", "created_at", "id"), include=("spent_total",)),
            models.Index(name="log_approved", fields=("id",), condition=Q(result="approved")),
            models.Index(name="log_blocked", fields=("id",), condition=Q(result="blocked")),
            models.Index(name="log_held", fields=("id",), condition=Q(result="held")),
            models.Index(
                name="log_approved_by_agent",
                fields=("agent", "created_at", "id"),
                condition=Q(result="approved"),
            ),
            models.Index(
                name="log_blocked_by_agent",
                fields=("agent", "created_at", "id"),
                condition=Q(result="blocked"),
            ),
            models.Index(
                name="log_refused_request",
                fields=("agent", "refused_request", "created_at"),
                condition=Q(refused_request__isnull=False),
            ),
        )

    def __str__(self) -> str:
        return self.id

    @property
    def decided_at(self) -> datetime:
        return self.created_at

    @property
    def metadata(self) -> dict[str, Any] | None:
        return None if self.metadata_json is None else json.loads(self.metadata_json)

    @property
    def explanation(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.explanation_json)
        return found
