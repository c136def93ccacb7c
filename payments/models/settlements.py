"""The transactions that pay payments, what each pays, and the changes of their states."""

from typing import Any

from django.db import models
from django.db.models import Q, QuerySet

from payments.lifecycle import ENDS, LIVE_STATES, OPEN_STATES, SettlementState
from payments.models.payments import Payment
from payments.models.relayers import Relayer
from policy.fields import AmountField
from policy.models import Agent


class Settlement(models.Model):
    """One signed transaction: committed, bytes and all, before it is first sent to a node. Its legs say what it pays.

    After any crash the same bytes are sent again, so there is at most one transfer. A replacement with a higher fee has
    the same nonce, so that at most one of the two can be included. Without legs it only fills a nonce. One that
    `is_void` does not pay: it makes the escrow mark the payment's id as used, so that nothing can pay it any more. On a
    chain without nonces, another is signed only once this one is proven never to be included.

    `most_cost` and `cost` are in units of the chain's own coin: the most that was signed for, and the real cost once
    that is known (`settling.transaction_costs`). Null `most_cost`: signed before this was recorded, or by
    others.
    """

    tx = models.CharField(primary_key=True, max_length=100, db_collation="C", help_text="The chain's own id.")
    payments: "models.ManyToManyField[Payment, Leg]" = models.ManyToManyField(
        Payment, through="Leg", related_name="settlements"
    )
    first_payment = models.ForeignKey(
        Payment,
        on_delete=models.PROTECT,
        related_name="+",
        null=True,
        # What the release before reads, which knows of one payment. It also keeps them in the order of time.
        db_column="payment_id",
        help_text="The first of its payments; null: it fills a nonce.",
    )
    chain = models.CharField(max_length=64, help_text="CAIP-2.")
    relayer = models.ForeignKey(Relayer, on_delete=models.PROTECT, db_index=False)
    is_void = models.BooleanField(default=False, help_text="It makes its payment impossible, instead of making it.")
    nonce = models.PositiveBigIntegerField(null=True, help_text="Null: the chain has none, or it is not one of ours.")
    raw = models.BinaryField(
        help_text="Empty: found on the chain, submitted by somebody else (`payments.reconciling.outflows`)."
    )
    valid_until = models.DateTimeField(
        null=True, help_text="The chain refuses it after this moment of its own time; null: never."
    )
    valid_until_height = models.PositiveBigIntegerField(
        null=True, help_text="The chain refuses it above this height; null: not for that reason."
    )
    valid_from_block = models.PositiveBigIntegerField(
        null=True, help_text="No block before this one can have it; null: unknown."
    )
    state = models.CharField(max_length=10, choices=[(state.value, state.value) for state in SettlementState])
    offered_at = models.DateTimeField(null=True, help_text="When it was last offered to a node; null: never.")
    block_number = models.PositiveBigIntegerField(null=True, help_text="Where it was last seen.")
    block_hash = models.CharField(max_length=100, blank=True)
    reason = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    most_cost = AmountField(null=True)
    cost = AmountField(null=True)

    class Meta:
        ordering = ("-created_at", "-tx")
        constraints = (
            models.UniqueConstraint(
                name="settlement_one_live_per_nonce", fields=("relayer", "nonce"), condition=Q(state__in=LIVE_STATES)
            ),
        )
        indexes = (
            models.Index(name="settlement_by_nonce", fields=("relayer", "nonce")),
            models.Index(
                name="settlement_open",
                fields=("chain", "state", "relayer", "nonce"),
                condition=Q(state__in=OPEN_STATES),
            ),
            models.Index(
                name="settlement_by_block",
                fields=("chain", "block_number", "block_hash"),
                condition=Q(state=SettlementState.INCLUDED),
            ),
            models.Index(
                name="settlement_gas_to_be_told",
                fields=("chain", "changed_at"),
                condition=Q(cost=None, most_cost__isnull=False, state__in=ENDS),
            ),
        )

    def __str__(self) -> str:
        return self.tx


class Leg(models.Model):
    """A payment's part of a transaction: one of the transfers that it makes, or its void.

    It `is_live` while its transaction is open, and stays so if that is final and has paid it: a trigger follows the
    transaction (settling/sql/legs.sql). `skipped`: why its transaction goes on without it; null: it does not.
    `most_cost` and `cost` are its shares of the transaction's gas, which its agent has used.
    """

    pk = models.CompositePrimaryKey("payment_id", "settlement_id")
    payment = models.ForeignKey(Payment, on_delete=models.PROTECT, related_name="legs", db_index=False)
    settlement = models.ForeignKey(
        Settlement, on_delete=models.PROTECT, related_name="legs", db_column="tx", db_index=False
    )
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+", db_index=False)
    chain = models.CharField(max_length=64, help_text="CAIP-2.")
    is_void = models.BooleanField(default=False, help_text="As of its transaction.")
    is_live = models.BooleanField(default=True)
    skipped = models.CharField(max_length=500, null=True)  # noqa: DJ001 - null: it was not skipped
    most_cost = AmountField(null=True)
    cost = AmountField(null=True)

    class Meta:
        constraints = (
            # One live transaction that pays and one that voids per payment.
            models.UniqueConstraint(
                name="leg_one_live_per_payment", fields=("payment", "is_void"), condition=Q(is_live=True)
            ),
        )
        indexes = (
            models.Index(name="leg_by_transaction", fields=("settlement",)),
            # As in deciding/sql/gas.sql: what counts at its most.
            models.Index(
                name="leg_gas_at_most",
                fields=("agent", "chain"),
                condition=Q(cost=None, most_cost__isnull=False),
            ),
        )

    def __str__(self) -> str:
        return f"{self.payment_id} in {self.settlement_id}"


def final_legs_of(payment: Any) -> QuerySet[Leg]:
    """Find the leg by which a payment was made: that of a transaction which is final and has paid it."""
    return Leg.objects.filter(payment=payment, is_void=False, skipped=None, settlement__state=SettlementState.FINAL)


class Transition(models.Model):
    """A change of a settlement's state, with its time and reason. Only ever added."""

    settlement = models.ForeignKey(Settlement, on_delete=models.PROTECT, related_name="transitions")
    old = models.CharField(max_length=10)
    new = models.CharField(max_length=10)
    reason = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ("id",)

    def __str__(self) -> str:
        return f"{self.old} → {self.new}"
