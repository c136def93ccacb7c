"""What was bought, the signed transactions that pay for it, who submits them, and what the watcher saw."""

from django.db import models
from django.db.models import Q

from ledger.models import LogEntry
from payments.lifecycle import OPEN_STATES, PaymentStatus, SettlementState
from policy.fields import AmountField
from policy.models import Agent
from services.models import Service


class Payment(models.Model):
    """An approved payment. Its id is also what the escrow settles once."""

    id = models.CharField(primary_key=True, max_length=30, db_collation="C")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, db_index=False)
    entry = models.OneToOneField(LogEntry, on_delete=models.PROTECT, related_name="payment")
    service = models.ForeignKey(Service, on_delete=models.PROTECT, db_index=False)
    asset = models.CharField(max_length=8)
    amount = AmountField()
    chain = models.CharField(max_length=64, help_text="CAIP-2.")
    recipient = models.CharField(max_length=128, help_text="Address on the chain, as approved.")
    status = models.CharField(max_length=8, choices=[(status.value, status.value) for status in PaymentStatus])
    created_at = models.DateTimeField()
    settled_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)
    failure_reason = models.CharField(max_length=500, blank=True)

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
        )
        indexes = (
            models.Index(name="payment_by_agent", fields=("agent", "id")),
            models.Index(name="payment_unsettled", fields=("id",), condition=Q(status="approved")),
        )

    def __str__(self) -> str:
        return self.id


class Relayer(models.Model):
    """An account that submits transactions on one chain. Its key is derived, never stored; its nonces are ours."""

    chain = models.CharField(max_length=64, help_text="CAIP-2.")
    number = models.PositiveIntegerField(help_text="Index in the derivation path.")
    address = models.CharField(max_length=64)
    next_nonce = models.PositiveBigIntegerField(default=0)
    is_enabled = models.BooleanField(default=True)

    class Meta:
        ordering = ("chain", "number")
        constraints = (models.UniqueConstraint(name="relayer_once_per_chain", fields=("chain", "number")),)

    def __str__(self) -> str:
        return f"{self.chain} {self.address}"


class Settlement(models.Model):
    """One signed transaction for a payment: committed, bytes and all, before it is first sent.

    Whatever dies, the same bytes are sent again; so there is at most one transfer.
    """

    tx = models.CharField(primary_key=True, max_length=100, db_collation="C", help_text="The chain's own id.")
    payment = models.ForeignKey(Payment, on_delete=models.PROTECT, related_name="settlements", db_index=False)
    chain = models.CharField(max_length=64, help_text="CAIP-2.")
    relayer = models.ForeignKey(Relayer, on_delete=models.PROTECT, db_index=False)
    nonce = models.PositiveBigIntegerField()
    raw = models.BinaryField()
    valid_until = models.DateTimeField(help_text="The chain refuses it after this moment of its own time.")
    state = models.CharField(max_length=10, choices=[(state.value, state.value) for state in SettlementState])
    claimed_until = models.DateTimeField(null=True, help_text="A worker is sending it; free again after this.")
    block_number = models.PositiveBigIntegerField(null=True)
    reason = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()

    class Meta:
        ordering = ("-created_at",)
        constraints = (
            # One live transaction per payment, one live transaction per nonce.
            models.UniqueConstraint(
                name="settlement_one_live_per_payment",
                fields=("payment",),
                condition=Q(state__in=(*OPEN_STATES, SettlementState.FINAL)),
            ),
            models.UniqueConstraint(
                name="settlement_one_live_per_nonce",
                fields=("relayer", "nonce"),
                condition=Q(state__in=OPEN_STATES),
            ),
        )
        indexes = (
            models.Index(
                name="settlement_open",
                fields=("chain", "state", "relayer", "nonce"),
                condition=Q(state__in=OPEN_STATES),
            ),
        )

    def __str__(self) -> str:
        return self.tx


class ChainState(models.Model):
    """What the watcher last saw of a chain; what it is, is the adapter's affair. Stale means: nothing is paid."""

    chain = models.CharField(primary_key=True, max_length=64, help_text="CAIP-2.")
    state = models.JSONField()
    observed_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.chain
