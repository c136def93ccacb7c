"""The movements of balances; append-only."""

from django.db import models
from django.db.models import Q

from policy.fields import AmountField
from policy.models import Agent


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
