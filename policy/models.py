"""Agents, the revisions of their policies and their shadows, API keys, and the switch of the policy signer."""

from decimal import Decimal

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from foundation.kernel.assets import Asset
from policy.fields import AmountField
from policy.more_limits import MoreLimits, read_more


class AgentStatus(models.TextChoices):
    ACTIVE = "active"
    PAUSED = "paused"


class Scope(models.TextChoices):
    PAYMENTS = "payments"
    BUDGETS = "budgets"
    SERVICES = "services"
    LOGS = "logs"


class Agent(models.Model):
    """An agent and its allowance.

    A payment locks this one row, so it also carries what the ledger relies on: the balance, the running total of all
    approved spend, and the head of the agent's hash chain. Only `ledger` and `payments` write these.
    """

    id = models.CharField(primary_key=True, max_length=255, db_collation="C")
    asset = models.CharField(max_length=8, choices=[(asset.value, asset.value) for asset in Asset])
    status = models.CharField(max_length=8, choices=AgentStatus, default=AgentStatus.ACTIVE)
    policy_revision = models.PositiveIntegerField(default=1)
    balance = AmountField(default=Decimal(0))
    spent_total = AmountField(default=Decimal(0))
    last_entry_id = models.CharField(max_length=30, blank=True)
    last_entry_hash = models.CharField(max_length=64, blank=True)
    last_entry_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    archived_at = models.DateTimeField(null=True, help_text="Null: it is not archived.")

    class Meta:
        ordering = ("id",)
        constraints = (
            models.CheckConstraint(name="agent_status_known", condition=Q(status__in=AgentStatus.values)),
            models.CheckConstraint(name="agent_asset_known", condition=Q(asset__in=list(Asset))),
            models.CheckConstraint(name="agent_balance_not_negative", condition=Q(balance__gte=0)),
            models.CheckConstraint(name="agent_spent_not_negative", condition=Q(spent_total__gte=0)),
        )

    def __str__(self) -> str:
        return self.id

    @property
    def state(self) -> str:
        """Its status, or that it is archived."""
        return str(self.status) if self.archived_at is None else "archived"


class PolicyRevision(models.Model):
    """One immutable revision of an agent's limits and allowed services (null: every approved service)."""

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="revisions", db_index=False)
    number = models.PositiveIntegerField()
    max_per_payment = AmountField()
    daily_limit = AmountField()
    weekly_limit = AmountField()
    allowed_services = ArrayField(models.CharField(max_length=128), null=True)
    # Null: a release until 0.3 has made it, which keeps the optional limits as they are (migration 0007).
    more_json = models.TextField(null=True, help_text="The optional limits.")  # noqa: DJ001
    counts_payments = models.BooleanField(
        default=False, db_default=False, help_text="A limit needs payments counted by number or by payee."
    )
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField()
    # Earlier releases, which run beside this one for a while, do not write it.
    is_by_one = models.BooleanField(
        default=False, db_default=False, help_text="One person alone let this pass, under FOUR_EYES_ABOVE."
    )

    class Meta:
        ordering = ("agent", "number")
        constraints = (
            models.UniqueConstraint(name="policy_revision_once", fields=("agent", "number")),
            models.CheckConstraint(
                name="policy_limits_not_negative",
                condition=Q(max_per_payment__gte=0, daily_limit__gte=0, weekly_limit__gte=0),
            ),
        )

    def __str__(self) -> str:
        return f"polrev_{self.number}"

    @property
    def more(self) -> MoreLimits:
        """Read the optional limits; raises OperationRefused if only a later release knows one."""
        return read_more(self.more_json)


class ShadowRevision(models.Model):
    """Limits that are tried on an agent: what they would have decided since `created_at` is worked out from the log.

    No payment is decided by them, and none reads them. An agent has one at most.
    """

    agent = models.OneToOneField(Agent, on_delete=models.PROTECT, primary_key=True, related_name="shadow")
    max_per_payment = AmountField()
    daily_limit = AmountField()
    weekly_limit = AmountField()
    allowed_services = ArrayField(models.CharField(max_length=128), null=True)
    more_json = models.TextField(help_text="The optional limits.")
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ("agent",)
        constraints = (
            models.CheckConstraint(
                name="shadow_limits_not_negative",
                condition=Q(max_per_payment__gte=0, daily_limit__gte=0, weekly_limit__gte=0),
            ),
        )

    def __str__(self) -> str:
        return f"shadow of {self.agent_id}"

    @property
    def more(self) -> MoreLimits:
        """Read the optional limits; raises OperationRefused if only a later release knows one."""
        return read_more(self.more_json)


class ApiKey(models.Model):
    """An API key's digest and scopes; the key itself is shown once and not stored."""

    id = models.CharField(primary_key=True, max_length=30)
    name = models.CharField(max_length=100, blank=True)
    digest = models.BinaryField(max_length=32, unique=True)
    scopes = ArrayField(models.CharField(max_length=16, choices=Scope))
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, null=True, blank=True, help_text="Bound to it.")
    # In CIDR form; null: the key is accepted from everywhere. They stay as they were issued.
    address_ranges = ArrayField(models.CharField(max_length=43), null=True)
    # Of a key that changes no payee but its own: the first of the keys that replaced one another; what one of them has
    # registered is all of theirs. Null: it changes any.
    registers_as = models.CharField(max_length=30, null=True)  # noqa: DJ001 - null means: anybody's
    replaces = models.OneToOneField("self", on_delete=models.PROTECT, null=True, related_name="replaced_by")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("id",)
        verbose_name = "API key"

    def __str__(self) -> str:
        return f"{self.id} {self.name}".strip()


class SignerSwitch(models.Model):
    """Whether the policy signer is in service: one row, read under the lock of every payment."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    is_signing = models.BooleanField(default=True)
    changed_by = models.CharField(max_length=150, blank=True)
    changed_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name_plural = "signer switch"
        constraints = (models.CheckConstraint(name="signer_switch_is_one", condition=Q(id=1)),)

    def __str__(self) -> str:
        return "Policy signer"
