"""Who submits transactions, what the watcher saw of a chain, and who looks after what."""

from django.db import models

from policy.fields import AmountField


class Relayer(models.Model):
    """An account that submits transactions on one chain. Its key is derived, never stored; its nonces are ours.

    On a chain without nonces `next_nonce` is null: such a relayer has no line. What the watcher saw of it:
    `mined_nonce`, the first one that no block has used; `gas_balance`, in units of the chain's own coin; `is_funded`,
    whether that pays for a full line of transactions, by a key that is derived from the present seed; `most_cost`, the
    most that another one costs.

    What is under way counts against the gas money, at the most that it can cost: payments are given nonces below
    `funded_until`. Without nonces, what is open (`Settlement.most_cost`) is taken from `spendable`, from which in turn
    is taken what comes to an end between two looks. Null: nobody has looked yet, or we have no key of it.
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

    class Meta:
        ordering = ("chain", "number")
        constraints = (models.UniqueConstraint(name="relayer_once_per_chain", fields=("chain", "address")),)

    def __str__(self) -> str:
        return f"{self.chain} {self.address}"


class ChainState(models.Model):
    """What the watcher last saw of a chain; what it is, is the adapter's affair. Stale means: nothing is paid.

    Nothing is paid either while `mismatch` says that the chain is not what is configured (the watcher sets and clears
    it), or while `stopped_reason` says why signing was stopped on it (reconciliation sets it, a person clears it).
    """

    chain = models.CharField(primary_key=True, max_length=64, help_text="CAIP-2.")
    state = models.JSONField()
    observed_at = models.DateTimeField()
    mismatch = models.CharField(max_length=500, blank=True, db_default="")
    checked_at = models.DateTimeField(null=True, help_text="When it was last compared with the configuration.")
    stopped_reason = models.CharField(max_length=500, blank=True, db_default="")
    stopped_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.chain


class Installation(models.Model):
    """Who we are: one row, made once. `salt` keeps what stands on chains from telling agents and keys.

    It is kept in the database, so that a restored backup derives the same ids: see `payments.deciding.escrow_ids`.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    salt = models.BinaryField(max_length=32)
    created_at = models.DateTimeField()

    class Meta:
        constraints = (models.CheckConstraint(name="installation_only_one", condition=models.Q(id=1)),)

    def __str__(self) -> str:
        return str(self.id)


class PayeeState(models.Model):
    """What the watcher last saw of a payee's account, where paying depends on it; the adapter knows what it means."""

    chain = models.CharField(max_length=64, help_text="CAIP-2.")
    address = models.CharField(max_length=128)
    state = models.JSONField()
    observed_at = models.DateTimeField()

    class Meta:
        constraints = (models.UniqueConstraint(name="payee_once_per_chain", fields=("chain", "address")),)

    def __str__(self) -> str:
        return f"{self.chain}:{self.address}"


class Duty(models.Model):
    """Something that one worker at a time should do, such as following a chain. It spares work, it guards nothing.

    Who holds it and dies loses it at `held_until`.
    """

    name = models.CharField(primary_key=True, max_length=100)
    held_until = models.DateTimeField()

    def __str__(self) -> str:
        return self.name
