"""Totals of the decision log by day, so that pictures of a long log cost as little as those of a short one."""

from django.db import models
from django.db.models import Q

from policy.fields import AmountField


class TotalOf(models.TextChoices):
    """What was added up: decisions by their result, and approved payments that failed later."""

    APPROVED = "approved"
    BLOCKED = "blocked"
    HELD = "held"
    FAILED = "failed"


class DailyTotal(models.Model):
    """How many decisions of a kind there were on a day (UTC), and the sum of their amounts. See `rollups`.

    What was held for a person's approval is counted so, and once more by the decision that ended it. A payment that
    failed is counted twice: as approved, and as failed, both on the day of its approval. What was spent is the
    difference. `service` is empty if no such service is registered: callers invent names without limit.
    """

    day = models.DateField()
    agent = models.CharField(max_length=255, db_collation="C")
    service = models.CharField(max_length=255, blank=True, db_collation="C")
    asset = models.CharField(max_length=8)
    chain = models.CharField(max_length=64, blank=True, help_text="CAIP-2; empty: no such service.")
    result = models.CharField(max_length=8, choices=TotalOf)
    rule = models.CharField(max_length=32)
    count = models.PositiveBigIntegerField()
    amount = AmountField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                name="daily_total_once", fields=("day", "agent", "service", "asset", "chain", "result", "rule")
            ),
            models.CheckConstraint(name="daily_total_result_known", condition=Q(result__in=TotalOf.values)),
        )

    def __str__(self) -> str:
        return f"{self.day} {self.agent} {self.result}"


class RollUp(models.Model):
    """How far the log is added up: one row, changed in the transaction that changes the totals.

    Everything before `entries_until` is in the totals, and all failures before `failures_until`. Days before `open_day`
    are closed: they were added up anew after they had ended.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    entries_until = models.DateTimeField()
    failures_until = models.DateTimeField()
    open_day = models.DateField()

    class Meta:
        constraints = (models.CheckConstraint(name="roll_up_is_one", condition=Q(id=1)),)

    def __str__(self) -> str:
        return f"until {self.entries_until:%Y-%m-%d %H:%M:%S}"
