"""API keys, and the switch of the policy signer."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from policy.models.agents import Agent


class Scope(models.TextChoices):
    PAYMENTS = "payments"
    BUDGETS = "budgets"
    SERVICES = "services"
    LOGS = "logs"


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
