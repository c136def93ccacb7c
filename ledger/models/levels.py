"""What agents have paid, as those above them count it."""

from django.db import models
from django.db.models import Q

from policy.fields import AmountField
from policy.models import Agent


class LevelPayment(models.Model):
    """A payment of an agent below another one, its `level`, as that counts it, with running totals.

    Whoever is above the payer when a payment is approved has a row of it for ever, wherever the payer is moved to.
    `number` and `spent` are of all such payments until this one, `payee_number` and `payee_spent` of those to the same
    payee. What was given back is among them, and `is_returned`. `carried_until`: the payment was dated then, in the
    future, when a clock was repaired. So it counts as one of the repair, and in every window until that moment has left
    it, too. Made by `sql/levels.sql` alone.
    """

    pk = models.CompositePrimaryKey("level_id", "number")
    level = models.ForeignKey(Agent, on_delete=models.PROTECT, db_index=False, db_constraint=False)
    number = models.BigIntegerField()
    payment_id = models.CharField(max_length=30, db_collation="C")
    payee = models.CharField(max_length=255, db_collation="C")
    at = models.DateTimeField()
    amount = AmountField()
    spent = AmountField()
    payee_number = models.BigIntegerField()
    payee_spent = AmountField()
    is_returned = models.BooleanField(default=False, db_default=False)
    carried_until = models.DateTimeField(null=True)

    class Meta:
        indexes = (
            models.Index(name="level_by_time", fields=("level", "at", "number")),
            models.Index(name="level_by_payee", fields=("level", "payee", "at", "number")),
            models.Index(
                name="level_carried", fields=("level", "carried_until"), condition=Q(carried_until__isnull=False)
            ),
            models.Index(name="level_returned", fields=("level", "at"), condition=Q(is_returned=True)),
        )
        constraints = (
            models.UniqueConstraint(name="level_counts_once", fields=("payment_id", "level")),
            models.CheckConstraint(name="level_amount_positive", condition=Q(amount__gt=0)),
        )

    def __str__(self) -> str:
        return f"{self.level_id} {self.number}"
