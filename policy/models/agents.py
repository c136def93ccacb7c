"""Agents and their allowances."""

from decimal import Decimal

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q

from foundation.kernel.assets import Asset
from policy.fields import AmountField


class AgentStatus(models.TextChoices):
    ACTIVE = "active"
    PAUSED = "paused"


class Agent(models.Model):
    """An agent and its allowance.

    A payment locks this one row, so it also carries what the ledger relies on: the balance, the running total of all
    approved spend, and the head of the agent's hash chain. Only `ledger` and `payments` write these.
    """

    id = models.CharField(primary_key=True, max_length=255, db_collation="C")
    asset = models.CharField(max_length=8, choices=[(asset.value, asset.value) for asset in Asset])
    status = models.CharField(max_length=8, choices=AgentStatus, default=AgentStatus.ACTIVE)
    policy_revision = models.PositiveIntegerField(default=1)
    balance = AmountField(default=Decimal(0))
    spent_total = AmountField(default=Decimal(0))
    last_entry_id = models.CharField(max_length=30, blank=True)
    last_entry_hash = models.CharField(max_length=64, blank=True)
    last_entry_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    # Worked out from the policies, which name the parents: see `policy.parents`.
    ancestors = ArrayField(
        models.CharField(max_length=255, db_collation="C"),
        null=True,
        help_text="All agents above it, root first; null: it was never part of a tree.",
    )
    archived_at = models.DateTimeField(null=True, help_text="Null: it is not archived.")

    class Meta:
        ordering = ("id",)
        indexes = (GinIndex(name="agent_by_ancestor", fields=("ancestors",), condition=Q(ancestors__isnull=False)),)
        constraints = (
            models.CheckConstraint(name="agent_status_known", condition=Q(status__in=AgentStatus.values)),
            models.CheckConstraint(name="agent_asset_known", condition=Q(asset__in=list(Asset))),
            models.CheckConstraint(name="agent_balance_not_negative", condition=Q(balance__gte=0)),
            models.CheckConstraint(name="agent_spent_not_negative", condition=Q(spent_total__gte=0)),
        )

    def __str__(self) -> str:
        return self.id

    @property
    def state(self) -> str:
        """Its status, or that it is archived."""
        return str(self.status) if self.archived_at is None else "archived"
