"""Comparisons of the escrows with the ledger."""

from decimal import Decimal
from enum import StrEnum

from django.db import models

from policy.fields import AmountField


class Verdict(StrEnum):
    """`missing` is an alarm. `surplus` is not: anybody may send tokens to an escrow, and credits are taken from it."""

    OK = "ok"
    SURPLUS = "surplus"
    MISSING = "missing"


class Reconciliation(models.Model):
    """One comparison of what an escrow holds with what the ledger says, as of one final block. Amounts in the asset.

    `booked` is what should be there: deposits and credits by hand, less what was settled and what else has left. Of
    that, `in_flight` is being paid. `drift` is what the escrow holds beyond it, the surplus; below zero, money is
    missing.

    The settled payments up to `settled_until` were checked against the chain, each once. `unconfirmed`: ids of those
    that it does not confirm; they are checked again each time.
    """

    chain = models.CharField(max_length=64, help_text="CAIP-2.")
    asset = models.CharField(max_length=8)
    escrow = models.CharField(max_length=128, blank=True, help_text="Empty: it was not written down then.")
    block_number = models.PositiveBigIntegerField()
    holds = AmountField()
    booked = AmountField()
    in_flight = AmountField()
    drift = AmountField()
    settled_until = models.DateTimeField(
        null=True, help_text="Payments settled before this are in `settled_total`, and were checked; null: none."
    )
    settled_total = AmountField()
    receipts_checked = models.PositiveIntegerField(default=0, help_text="In this comparison.")
    unconfirmed = models.JSONField(default=list)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ("-id",)
        indexes = (models.Index(name="reconciliation_newest", fields=("chain", "asset", "-id")),)

    def __str__(self) -> str:
        return f"{self.chain} {self.asset} {self.drift}"

    def is_of(self, escrow: str) -> bool:
        """Tell whether it is about this escrow, and not about an earlier one of the chain."""
        return self.escrow in ("", escrow)

    @property
    def verdict(self) -> Verdict:
        if self.drift == 0:
            return Verdict.OK
        return Verdict.SURPLUS if self.drift > 0 else Verdict.MISSING

    @property
    def missing(self) -> Decimal:
        """How much is missing; zero if nothing is."""
        drift: Decimal = self.drift
        return max(Decimal(0), -drift)
