"""Relayers, what the watcher saw of chains and payees, and the leases of workers."""

from django.db import models

from policy.fields import AmountField

# What has this number or a higher one only names an account: it has submitted for agents of this group before the group
# had relayers of its own (operators/distributing/rows.sql).
FIRST_FORMER = 1_000_000


class _Submitting(models.Manager["Relayer"]):
    """The relayers that submit, and are looked after."""

    def get_queryset(self) -> models.QuerySet["Relayer"]:
        return super().get_queryset().filter(number__lt=FIRST_FORMER)


class Relayer(models.Model):
    """An account that submits transactions on one chain. Its key is derived, never stored; its nonces are ours.

    On a chain without nonces, `next_nonce` is null, and such a relayer has no queue. The watcher records `mined_nonce`,
    the first nonce that no block has used; `gas_balance`, in units of the chain's own coin; `is_funded`, whether that
    pays for a full queue and we have the key, derived from the present seed; `most_cost`, the most that another
    transaction costs.

    Open transactions count against the gas money at the most that they can cost. With nonces, payments get nonces below
    `funded_until`. Without nonces, the cost of open transactions (`Settlement.most_cost`) is deducted from `spendable`,
    which is itself reduced by what ends between two observations. Null: not observed yet, or we do not have its key.
    """

    chain = models.CharField(max_length=64, help_text="CAIP-2.")
    number = models.PositiveIntegerField(help_text="Index in the derivation path.")
    address = models.CharField(max_length=64)
    next_nonce = models.PositiveBigIntegerField(default=0, null=True)
    is_enabled = models.BooleanField(default=True, help_text="The operator's switch.")
    mined_nonce = models.PositiveBigIntegerField(default=0)
    gas_balance = AmountField(null=True)
    is_funded = models.BooleanField(default=True)
    funded_until = models.BigIntegerField(null=True)
    spendable = AmountField(null=True)
    most_cost = AmountField(null=True)
    seen_at = models.DateTimeField(null=True)

    objects = _Submitting()

    class Meta:
        ordering = ("chain", "number")
        constraints = (models.UniqueConstraint(name="relayer_once_per_chain", fields=("chain", "address")),)

    def __str__(self) -> str:
        return f"{self.chain} {self.address}"


class ChainState(models.Model):
    """What the watcher last saw of a chain, in the adapter's own form. While it is stale, nothing is paid.

    Nothing is paid either while `mismatch` says how the chain differs from its configuration (the watcher sets and
    clears it), or while `stopped_reason` says why signing was stopped on it (reconciliation sets it, a person clears
    it).

    `contradictions`: by the number of each node that has said something else than the others, when it last did (`at`),
    and what it was about.
    """

    chain = models.CharField(primary_key=True, max_length=64, help_text="CAIP-2.")
    state = models.JSONField()
    observed_at = models.DateTimeField()
    mismatch = models.CharField(max_length=500, blank=True, db_default="")
    checked_at = models.DateTimeField(null=True, help_text="When it was last compared with the configuration.")
    stopped_reason = models.CharField(max_length=500, blank=True, db_default="")
    stopped_at = models.DateTimeField(null=True)
    contradictions = models.JSONField(default=dict, db_default={})

    def __str__(self) -> str:
        return self.chain


class Installation(models.Model):
    """The identity of this installation: one row, made once. `salt` hides agents and keys in the ids put on chains.

    It is in the database, so that a restored backup derives the same ids: see `payments.deciding.escrow_ids`.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    salt = models.BinaryField(max_length=32)
    created_at = models.DateTimeField()

    class Meta:
        constraints = (models.CheckConstraint(name="installation_only_one", condition=models.Q(id=1)),)

    def __str__(self) -> str:
        return str(self.id)


class PayeeState(models.Model):
    """What the watcher last saw of a payee's account, if payments depend on it, in the adapter's own form."""

    chain = models.CharField(max_length=64, help_text="CAIP-2.")
    address = models.CharField(max_length=128)
    state = models.JSONField()
    observed_at = models.DateTimeField()

    class Meta:
        constraints = (models.UniqueConstraint(name="payee_once_per_chain", fields=("chain", "address")),)

    def __str__(self) -> str:
        return f"{self.chain}:{self.address}"


class Lease(models.Model):
    """One worker at a time does some work, such as following a chain. A lease only saves work.

    A worker that dies loses its lease at `held_until`.
    """

    name = models.CharField(primary_key=True, max_length=100)
    held_until = models.DateTimeField()

    class Meta:
        db_table = "payments_duty"  # as earlier releases have named it

    def __str__(self) -> str:
        return self.name
