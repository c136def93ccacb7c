"""The decision log (also the receipts and the idempotency record) and the movements of balances; both append-only."""

import json
from datetime import datetime
from typing import Any

from django.db import models
from django.db.models import F, Q

from policy.fields import AmountField
from policy.models import Agent


class Result(models.TextChoices):
    APPROVED = "approved"
    BLOCKED = "blocked", "Refused"


class LogEntry(models.Model):
    """One decision. Its id sorts by time and, within an agent, in the order of the hash chain.

    Where an agent's clock was repaired, the chain continues from an entry that is dated in the future: its order is
    that of `clock_repairs`, then of time. `refused_request` lets the same 503 be answered again without another entry.
    Neither is part of the receipt.

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
                | Q(result=Result.BLOCKED, payment_id__isnull=True, tx__isnull=True),
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


class MovementKind(models.TextChoices):
    FUNDING = "funding"
    PAYMENT = "payment"
    RETURN = "return"
    WITHDRAWAL = "withdrawal"
    ADJUSTMENT = "adjustment"


class BalanceMovement(models.Model):
    """A change of an agent's balance, which is the sum of all its movements.

    A `return` gives a failed payment back. `spent_at` is when that payment was approved: its spend leaves the windows
    as of that moment, not as of the moment of the return.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, db_index=False)
    kind = models.CharField(max_length=16, choices=MovementKind)
    amount = AmountField(help_text="Signed: negative takes from the balance.")
    balance_after = AmountField()
    payment_id = models.CharField(max_length=30, null=True)  # noqa: DJ001 - null: not about a payment
    spent_at = models.DateTimeField(null=True)
    chain = models.CharField(  # noqa: DJ001 - null: it is not about one chain, or the payment tells
        max_length=64, null=True, help_text="CAIP-2: where the money came in or went out, if it is not a payment."
    )
    author = models.CharField(max_length=150)
    reason = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.CheckConstraint(name="movement_kind_known", condition=Q(kind__in=MovementKind.values)),
            models.CheckConstraint(name="movement_balance_not_negative", condition=Q(balance_after__gte=0)),
            models.CheckConstraint(
                name="movement_sign_fits_kind",
                condition=Q(kind__in=("funding", "return"), amount__gt=0)
                | Q(kind__in=("payment", "withdrawal"), amount__lt=0)
                | (Q(kind="adjustment") & ~Q(amount=0)),
            ),
            models.CheckConstraint(
                name="movement_return_says_when_spent",
                condition=Q(kind="return", spent_at__isnull=False, payment_id__isnull=False)
                | (~Q(kind="return") & Q(spent_at__isnull=True)),
            ),
            models.CheckConstraint(
                name="movement_by_hand_says_who_and_why",
                condition=~Q(kind__in=("withdrawal", "adjustment")) | (~Q(author="") & ~Q(reason="")),
            ),
            # A payment takes once and is given back at most once.
            models.UniqueConstraint(
                name="movement_once_per_payment",
                fields=("payment_id", "kind"),
                condition=Q(payment_id__isnull=False),
            ),
        )
        indexes = (
            models.Index(name="movement_by_agent", fields=("agent", "id")),
            models.Index(
                name="movement_returns",
                fields=("agent", "spent_at"),
                include=("amount",),
                condition=Q(kind="return"),
            ),
            models.Index(
                name="movement_by_hand",
                fields=("id",),
                condition=Q(kind__in=("funding", "withdrawal", "adjustment")),
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.amount}"


class Tally(models.Model):
    """What an agent has paid until now, in all (`payee` is empty) or to one payee, where its policy counts payments.

    Made from the log, by `sql/tallies.sql` alone. `entry_id`: how far it has come. What was given back is among the
    payments and the spend, too.
    """

    pk = models.CompositePrimaryKey("agent_id", "payee")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, db_index=False, db_constraint=False)
    payee = models.CharField(max_length=255, db_collation="C")
    payments = models.BigIntegerField()
    spent = AmountField()
    returned_payments = models.BigIntegerField()
    returned = AmountField()
    entry_id = models.CharField(max_length=30, null=True)  # noqa: DJ001 - null: it has not paid yet

    class Meta:
        verbose_name_plural = "tallies"

    def __str__(self) -> str:
        return f"{self.agent_id} {self.payee}".strip()


class TallyMark(models.Model):
    """A tally as it was after a payment, made `at` a moment. The difference of two marks is what was paid in between.

    `carried`, an amount: the payment was in the future when the agent's clock was repaired, so it counts as one of the
    repair, and in every window until `carried_until`.
    """

    pk = models.CompositePrimaryKey("agent_id", "payee", "at", "payments")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, db_index=False, db_constraint=False)
    payee = models.CharField(max_length=255, db_collation="C")
    at = models.DateTimeField()
    payments = models.BigIntegerField()
    spent = AmountField()
    carried = AmountField(null=True)
    carried_until = models.DateTimeField(null=True)

    class Meta:
        indexes = (
            models.Index(
                name="tally_carried",
                fields=("agent", "payee", "carried_until"),
                condition=Q(carried_until__isnull=False),
            ),
        )

    def __str__(self) -> str:
        return f"{self.agent_id} {self.payee} {self.payments}"


class ClockRepair(models.Model):
    """A repair of an agent whose last entry was dated in the future by a clock that had jumped.

    The entries stay as they are; later decisions are dated by the clock again. `spent_total` was spent up to the
    repair, of which `spent_before` in entries that were not in the future at `repaired_at`. The difference counts in
    every window until `head_at`, the moment of the last of those entries, has left it.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, db_index=False)
    number = models.PositiveSmallIntegerField(help_text="Counts the agent's repairs, from 1.")
    head_id = models.CharField(max_length=30, help_text="The agent's last entry.")
    head_hash = models.CharField(max_length=64)
    head_at = models.DateTimeField()
    spent_total = AmountField()
    spent_before = AmountField()
    author = models.CharField(max_length=150)
    reason = models.CharField(max_length=500)
    repaired_at = models.DateTimeField()

    class Meta:
        ordering = ("agent", "number")
        constraints = (
            models.UniqueConstraint(name="clock_repair_once", fields=("agent", "number")),
            models.CheckConstraint(name="clock_repair_of_the_future", condition=Q(head_at__gt=F("repaired_at"))),
            models.CheckConstraint(name="clock_repair_says_who_and_why", condition=~Q(author="") & ~Q(reason="")),
        )

    def __str__(self) -> str:
        return f"{self.agent_id} {self.number}"
