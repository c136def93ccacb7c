"""Deposits into the escrows, and withdrawals and outflows from them."""

from django.db import models
from django.db.models import Q

from ledger.models import BalanceMovement
from policy.fields import AmountField
from policy.models import Agent


class DepositState(models.TextChoices):
    """`aside`: it names no agent that it could be credited to, so finance staff decide."""

    CREDITED = "credited"
    ASIDE = "aside"


class Deposit(models.Model):
    """One deposit in a final block. It is credited once: there is one row, and one movement of a balance."""

    chain = models.CharField(max_length=64, help_text="CAIP-2.")
    tx = models.CharField(max_length=100, db_collation="C")
    log_index = models.PositiveIntegerField(
        help_text="Of the event in its block (EVM), or of the escrow's account in the transaction (Solana)."
    )
    block_number = models.PositiveBigIntegerField()
    depositor = models.CharField(max_length=128)
    token = models.CharField(max_length=128)
    asset = models.CharField(max_length=8, null=True, help_text="Null: a token that is not served.")  # noqa: DJ001
    amount = AmountField(help_text="In units of the asset; in the token's base units if that is unknown.")
    named_agent = models.TextField(help_text="As the deposit names it; it may not exist.")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, null=True, db_index=False)
    state = models.CharField(max_length=8, choices=DepositState)
    note = models.CharField(max_length=500, blank=True, help_text="Why it was put aside.")
    movement = models.OneToOneField(BalanceMovement, on_delete=models.PROTECT, null=True, related_name="deposit")
    found_at = models.DateTimeField()
    credited_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(name="deposit_once", fields=("chain", "tx", "log_index")),
            models.CheckConstraint(name="deposit_amount_positive", condition=Q(amount__gt=0)),
            models.CheckConstraint(
                name="deposit_credited_has_its_movement",
                condition=Q(
                    state="credited", agent__isnull=False, movement__isnull=False, credited_at__isnull=False,
                    asset__isnull=False,
                )
                | Q(state="aside", agent__isnull=True, movement__isnull=True, credited_at__isnull=True),
            ),
        )  # fmt: skip
        indexes = (
            models.Index(name="deposit_by_asset", fields=("chain", "asset")),
            models.Index(name="deposit_aside", fields=("id",), condition=Q(state="aside")),
        )

    def __str__(self) -> str:
        return f"{self.tx} {self.log_index}"


class DepositCursor(models.Model):
    """How far the escrow of a chain was searched for deposits: every block up to this one, which is final.

    Null: not yet, and what is final by now was credited by hand, before deposits were watched.

    Behind `disputed_after` some node says otherwise than most of them. What those say counts, but nothing is given back
    by it; the search is repeated from there until all say the same.
    """

    chain = models.CharField(primary_key=True, max_length=64, help_text="CAIP-2.")
    escrow = models.CharField(max_length=128, blank=True, help_text="Another one is searched from its own first block.")
    block_number = models.PositiveBigIntegerField(null=True)
    moved_at = models.DateTimeField()
    complete_at = models.DateTimeField(
        null=True, help_text="When it last was as far as the chain, and what is newer held nothing unknown."
    )
    strays_until_height = models.PositiveBigIntegerField(
        null=True,
        help_text="After a break in the search: until then what is not known here could land. Null: there was none.",
    )
    disputed_after = models.PositiveBigIntegerField(
        null=True, help_text="Up to this block all nodes say the same of what was searched. Null: of all of it."
    )

    def __str__(self) -> str:
        return f"{self.chain} {self.block_number}"

    @property
    def undisputed_block(self) -> int | None:
        """The block up to which no node denies what was found: what is missing there proves that it is not there."""
        searched, disputed = self.block_number, self.disputed_after
        # A person, or a process of an earlier release, may have set the search back.
        return searched if searched is None or disputed is None else min(searched, disputed)


class Withdrawal(models.Model):
    """Tokens that the owner takes out of an escrow: booked first, then followed until they have left it.

    Without an agent it is no withdrawal from an allowance: the tokens move to the next escrow (`rotate_keys`).
    """

    reference = models.CharField(max_length=30, unique=True, help_text="On Solana the memo of its transaction.")
    chain = models.CharField(max_length=64, help_text="CAIP-2.")
    escrow = models.CharField(max_length=128, help_text="That it leaves.")
    asset = models.CharField(max_length=8)
    amount = AmountField()
    recipient = models.CharField(max_length=128)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, null=True, db_index=False)
    movement = models.OneToOneField(BalanceMovement, on_delete=models.PROTECT, null=True, related_name="tokens")
    author = models.CharField(max_length=150)
    reason = models.CharField(max_length=500)
    created_at = models.DateTimeField()
    valid_until_height = models.PositiveBigIntegerField(
        null=True, help_text="What the owner was given to sign last cannot land above this height; null: it lasts."
    )
    landed_tx = models.CharField(max_length=100, blank=True, db_collation="C")
    landed_block = models.PositiveBigIntegerField(null=True)
    cancelled_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.CheckConstraint(name="withdrawal_amount_positive", condition=Q(amount__gt=0)),
            models.CheckConstraint(
                name="withdrawal_ends_once",
                condition=Q(landed_block__isnull=True, landed_tx="")
                | Q(landed_block__isnull=False, cancelled_at__isnull=True),
            ),
        )
        indexes = (
            models.Index(
                name="withdrawal_open",
                fields=("chain",),
                condition=Q(landed_block__isnull=True, cancelled_at__isnull=True),
            ),
        )

    def __str__(self) -> str:
        return self.reference

    @property
    def state(self) -> str:
        """How far it is: `open`, `landed` or `cancelled`."""
        if self.landed_block is not None:
            return "landed"
        return "open" if self.cancelled_at is None else "cancelled"


class Outflow(models.Model):
    """Something that left an escrow, in a final block, and that the ledger does not know: signing stopped for it.

    A person finds out what it is and books it (`book_outflow`).
    """

    chain = models.CharField(max_length=64, help_text="CAIP-2.")
    tx = models.CharField(max_length=100, db_collation="C")
    log_index = models.PositiveIntegerField(help_text="As of a deposit.")
    block_number = models.PositiveBigIntegerField()
    token = models.CharField(max_length=128, blank=True)
    asset = models.CharField(max_length=8, null=True, help_text="Null: a token that is not served, or none.")  # noqa: DJ001
    amount = AmountField(help_text="As of a deposit; zero if an id was voided.")
    recipient = models.CharField(max_length=128, blank=True, help_text="Empty: the chain does not tell.")
    escrow_id = models.CharField(
        max_length=500, blank=True, db_collation="C", help_text="Which payment it names; empty: none."
    )
    why = models.CharField(max_length=500, help_text="Why it is no payment of ours.")
    found_at = models.DateTimeField()
    movement = models.OneToOneField(BalanceMovement, on_delete=models.PROTECT, null=True, related_name="outflow")
    booked_at = models.DateTimeField(null=True)
    booked_by = models.CharField(max_length=150, blank=True)
    note = models.CharField(max_length=500, blank=True, help_text="What it turned out to be.")

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(name="outflow_once", fields=("chain", "tx", "log_index")),
            models.CheckConstraint(name="outflow_amount_not_negative", condition=Q(amount__gte=0)),
            models.CheckConstraint(
                name="outflow_booked_says_by_whom",
                condition=Q(booked_at__isnull=True, movement__isnull=True) | ~Q(booked_by="", note=""),
            ),
        )
        indexes = (
            models.Index(name="outflow_by_escrow_id", fields=("chain", "escrow_id")),
            models.Index(name="outflow_open", fields=("id",), condition=Q(booked_at__isnull=True)),
        )

    def __str__(self) -> str:
        return f"{self.tx} {self.log_index}"

    @property
    def state(self) -> str:
        """`open`: nobody has said what it is."""
        return "open" if self.booked_at is None else "booked"
