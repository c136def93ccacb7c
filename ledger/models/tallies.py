"""What agents have paid, by number and by payee."""

from django.db import models
from django.db.models import Q

from policy.fields import AmountField
from policy.models import Agent


class Tally(models.Model):
    """What an agent has paid until now, in all (`payee` is empty) or to one payee, where its policy counts payments.

    Written by `sql/tallies.sql` alone, and checked against the log. `entry_id`: the newest of these payments. What was
    given back is among the payments and the spend, too.
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
