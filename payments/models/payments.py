"""Payments."""

from datetime import datetime

from django.db import models
from django.db.models import Q

from ledger.models import LogEntry
from payments.lifecycle import PaymentStatus
from policy.fields import AmountField
from policy.models import Agent
from services.models import Service


class Payment(models.Model):
    """An approved payment. `escrow_id` is what its chain knows it by; see `payments.deciding.escrow_ids`.

    One that its payee takes itself has no transaction of ours: an authorization (EIP-3009) by the escrow `authorizer`,
    to the token `authorized_token`, until `authorized_until` of the chain's time. Of others, all three are null.
    """

    id = models.CharField(primary_key=True, max_length=30, db_collation="C")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, db_index=False)
    entry = models.OneToOneField(LogEntry, on_delete=models.PROTECT, related_name="payment")
    service = models.ForeignKey(Service, on_delete=models.PROTECT, db_index=False)
    asset = models.CharField(max_length=8)
    amount = AmountField()
    chain = models.CharField(max_length=64, help_text="CAIP-2.")
    recipient = models.CharField(max_length=128, help_text="Address on the chain, as approved.")
    escrow_id = models.CharField(max_length=66, db_collation="C", help_text="What its chain knows it by.")
    status = models.CharField(max_length=8, choices=[(status.value, status.value) for status in PaymentStatus])
    created_at = models.DateTimeField()
    approved_at = models.DateTimeField(null=True, help_text="Null: when it was created. Else a person did so.")
    settled_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)
    failure_reason = models.CharField(max_length=500, blank=True)
    authorizer = models.CharField(max_length=42, null=True)  # noqa: DJ001 - null: a relayer pays it
    authorized_token = models.CharField(max_length=42, null=True)  # noqa: DJ001 - as above
    authorized_until = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.CheckConstraint(name="payment_amount_positive", condition=Q(amount__gt=0)),
            models.CheckConstraint(
                name="payment_status_has_its_time",
                condition=Q(status="approved", settled_at__isnull=True, failed_at__isnull=True)
                | Q(status="settled", settled_at__isnull=False, failed_at__isnull=True)
                | Q(status="failed", settled_at__isnull=True, failed_at__isnull=False),
            ),
            models.UniqueConstraint(name="payment_once_per_escrow_id", fields=("chain", "escrow_id")),
            models.CheckConstraint(
                name="payment_authorized_wholly",
                condition=Q(authorizer=None, authorized_token=None, authorized_until=None)
                | Q(authorizer__isnull=False, authorized_token__isnull=False, authorized_until__isnull=False),
            ),
        )
        indexes = (
            models.Index(name="payment_by_agent", fields=("agent", "id")),
            models.Index(name="payment_unsettled", fields=("id",), condition=Q(status="approved")),
            models.Index(name="payment_settled", fields=("settled_at",), condition=Q(status="settled")),
            # For the filters of `GET /v1/payments`, as that of what is unsettled: see `payments.payment_states`.
            models.Index(name="payment_failed", fields=("id",), condition=Q(status="failed")),
            models.Index(name="payment_by_agent_and_time", fields=("agent", "created_at", "id")),
            models.Index(name="payment_by_service", fields=("service", "created_at", "id")),
            models.Index(name="payment_by_purchase", fields=("agent", "service", "amount", "created_at", "id")),
        )

    def __str__(self) -> str:
        return self.id

    @property
    def decided_at(self) -> datetime:
        """When it was approved: its id and `created_at` are of the moment at which it was asked for."""
        return self.approved_at or self.created_at
