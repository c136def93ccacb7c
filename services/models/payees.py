"""Payees."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q, Value
from django.db.models.functions import Concat

from chains.addresses import is_on_curve
from chains.catalogue import Vm, find_chain
from foundation.kernel.assets import Asset
from policy.tags import LONGEST_TAG, MOST_TAGS


class ServiceStatus(models.TextChoices):
    PENDING_APPROVAL = "pending_approval"
    APPROVED = "approved"
    REJECTED = "rejected"
    DISABLED = "disabled"


class Service(models.Model):
    """A payee: a service id mapped to a recipient. Only an approved one is paid.

    `registration` counts the changes of what an approval covers, so that a reviewer approves exactly what was shown.
    """

    id = models.CharField(primary_key=True, max_length=128, db_collation="C")
    name = models.CharField(max_length=200)
    recipient = models.CharField(max_length=200, help_text="As the caller wrote it.")
    chain = models.CharField(max_length=64, help_text="CAIP-2.")
    address = models.CharField(max_length=128, help_text="In the chain's canonical case.")
    asset = models.CharField(max_length=8, choices=[(asset.value, asset.value) for asset in Asset])
    webhook_url = models.CharField(max_length=2048, null=True, blank=True)  # noqa: DJ001 - null means: none
    status = models.CharField(max_length=16, choices=ServiceStatus, default=ServiceStatus.PENDING_APPROVAL)
    registration = models.PositiveIntegerField(default=1)
    approved_recipient = models.CharField(max_length=200, blank=True, help_text="CAIP-10, as approved.")
    decided_by = models.CharField(max_length=150, blank=True)
    decided_at = models.DateTimeField(null=True)
    waiting_since = models.DateTimeField(null=True, help_text="Since when it is pending, if it is.")
    # Earlier releases, which run beside this one for a while, know of none.
    tags = ArrayField(
        models.CharField(max_length=LONGEST_TAG), default=list, db_default=[],
        help_text="The groups that policies may allow, in their order.",
    )  # fmt: skip
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        verbose_name = "payee"  # to people; the API says service
        ordering = ("id",)
        constraints = (
            models.CheckConstraint(name="service_status_known", condition=Q(status__in=ServiceStatus.values)),
            models.CheckConstraint(name="service_asset_known", condition=Q(asset__in=list(Asset))),
            models.CheckConstraint(name="service_tags_few", condition=Q(tags__len__lte=MOST_TAGS)),
            # An approval that survives a changed recipient is how money goes astray: the database refuses it.
            models.CheckConstraint(
                name="service_approval_covers_recipient",
                condition=~Q(status=ServiceStatus.APPROVED)
                | Q(approved_recipient=Concat(F("chain"), Value(":"), F("address"))),
            ),
        )
        indexes = (
            models.Index(name="service_by_address", fields=("address",)),
            models.Index(name="service_approved", fields=("id",), condition=Q(status="approved")),
            models.Index(name="service_waiting", fields=("waiting_since",), condition=Q(status="pending_approval")),
        )

    def __str__(self) -> str:
        return self.id

    @property
    def receives_events(self) -> bool:
        """Tell whether events may go to its webhook URL now. Queries of endpoints use `RECEIVES_EVENTS`."""
        return self.status == ServiceStatus.APPROVED and self.webhook_url is not None

    @property
    def canonical_recipient(self) -> str:
        """CAIP-10 of the recipient as it stands today."""
        return f"{self.chain}:{self.address}"

    @property
    def is_off_curve(self) -> bool:
        """Tell whether the recipient is an address on Solana for which nobody can have a key."""
        chain = find_chain(self.chain)
        return chain is not None and chain.vm is Vm.SOLANA and not is_on_curve(self.address)
