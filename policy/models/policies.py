"""The revisions of policies, the shadows that are tried on agents, and the templates that several follow."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from foundation.kernel.assets import Asset
from policy.fields import AmountField
from policy.models.agents import Agent
from policy.more_limits import MoreLimits, read_more


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
    # An agent follows the template that its revision in force names: whoever sets its policy otherwise ends that.
    template = models.CharField(max_length=64, blank=True, db_default="", help_text="It was made from it; empty: none.")

    class Meta:
        ordering = ("agent", "number")
        indexes = (models.Index(name="revision_by_template", fields=("template", "agent"), condition=~Q(template="")),)
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


class PolicyTemplate(models.Model):
    """A named policy that agents of one asset follow: see `template_operations`. `version` counts its changes."""

    name = models.CharField(primary_key=True, max_length=64, db_collation="C")
    asset = models.CharField(max_length=8, choices=[(asset.value, asset.value) for asset in Asset])
    version = models.PositiveIntegerField(default=1)
    max_per_payment = AmountField()
    daily_limit = AmountField()
    weekly_limit = AmountField()
    allowed_services = ArrayField(models.CharField(max_length=128), null=True)
    more_json = models.TextField(default="{}", help_text="The optional limits.")
    changed_by = models.CharField(max_length=150)
    changed_at = models.DateTimeField()

    class Meta:
        ordering = ("name",)
        default_permissions = ()  # it is agents' policies that staff may see and change
        constraints = (
            models.CheckConstraint(name="template_asset_known", condition=Q(asset__in=list(Asset))),
            models.CheckConstraint(
                name="template_limits_not_negative",
                condition=Q(max_per_payment__gte=0, daily_limit__gte=0, weekly_limit__gte=0),
            ),
        )

    def __str__(self) -> str:
        return self.name

    @property
    def more(self) -> MoreLimits:
        """Read the optional limits; raises OperationRefused if only a later release knows one."""
        return read_more(self.more_json)
