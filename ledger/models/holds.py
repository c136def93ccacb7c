"""Payments that wait for a person's approval."""

from datetime import datetime

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q

from ledger.models.log import LogEntry
from policy.fields import AmountField
from policy.models import Agent


class HoldAnswer(models.TextChoices):
    APPROVE = "approve", "approved"
    DECLINE = "decline", "declined"


class Hold(models.Model):
    """A payment that a rule holds until a person has approved it; its id is the payment's.

    Until it has ended, its amount counts in the agent's balance and in all of its windows. `entry` is the decision to
    hold it, `final_entry` the one that ends it: approved and paid, or refused. `api_key`: the id of the key that asked.
    `demand_json`: what the payee's 402 asked for, if it is to take the money itself (x402).
    """

    id = models.CharField(primary_key=True, max_length=30, db_collation="C")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, db_index=False, db_constraint=False)
    # Those above the agent, as `Agent.ancestors`, while it waits: it counts in their windows, too.
    ancestors = ArrayField(models.CharField(max_length=255, db_collation="C"), null=True)
    entry = models.OneToOneField(LogEntry, on_delete=models.PROTECT, related_name="hold", db_constraint=False)
    service = models.CharField(max_length=255)
    amount = AmountField()
    api_key = models.CharField(max_length=30, blank=True)
    demand_json = models.TextField(null=True)  # noqa: DJ001 - null: we submit the payment
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    answer = models.CharField(max_length=8, choices=HoldAnswer, blank=True)
    answered_by = models.CharField(max_length=150, blank=True)
    answered_at = models.DateTimeField(null=True)
    answer_reason = models.CharField(max_length=500, blank=True)
    ended_at = models.DateTimeField(null=True)
    final_entry = models.OneToOneField(
        LogEntry, on_delete=models.PROTECT, related_name="hold_ended", null=True, db_constraint=False
    )

    class Meta:
        ordering = ("-id",)
        verbose_name = "payment that waits for approval"
        verbose_name_plural = "payments that wait for approval"
        constraints = (
            models.CheckConstraint(name="hold_amount_positive", condition=Q(amount__gt=0)),
            models.CheckConstraint(
                name="hold_answer_says_who_and_why",
                condition=Q(answer="", answered_by="", answered_at=None, answer_reason="")
                | Q(~Q(answered_by=""), ~Q(answer_reason=""), answer__in=HoldAnswer.values, answered_at__isnull=False),
            ),
            models.CheckConstraint(
                name="hold_ends_with_a_decision",
                condition=Q(ended_at=None, final_entry=None) | Q(ended_at__isnull=False, final_entry__isnull=False),
            ),
        )
        indexes = (
            models.Index(name="hold_open", fields=("agent", "id"), condition=Q(ended_at=None)),
            models.Index(name="hold_by_agent", fields=("agent", "id")),
            GinIndex(
                name="hold_by_ancestor",
                fields=("ancestors",),
                fastupdate=False,
                condition=Q(ended_at=None, ancestors__isnull=False),
            ),
        )

    def __str__(self) -> str:
        return self.id

    @property
    def audited_as(self) -> str:
        """The action that the audit has of its answer."""
        return f"payment.{HoldAnswer(self.answer).label}"

    def is_expired(self, now: datetime) -> bool:
        return now >= self.expires_at
