"""Repairs of the clocks of agents; append-only."""

from django.db import models
from django.db.models import F, Q

from policy.fields import AmountField
from policy.models import Agent


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
