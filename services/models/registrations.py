"""Every registration of a service as it came, and every decision on it. Append-only: see `sql/append_only.sql`."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q

from services.models.payees import Service, ServiceStatus


class RegistrationRecord(models.Model):
    """A registration as it came. `number` is `Service.registration` at that time: a new name alone keeps the number.

    `pieces` are what addresses like this one are found by (`services.lookalikes`).
    """

    service = models.ForeignKey(Service, on_delete=models.PROTECT, related_name="registrations", db_index=False)
    number = models.PositiveIntegerField()
    name = models.CharField(max_length=200)
    recipient = models.CharField(max_length=200, help_text="As the caller wrote it.")
    chain = models.CharField(max_length=64, help_text="CAIP-2.")
    address = models.CharField(max_length=128, help_text="In the chain's canonical case.")
    asset = models.CharField(max_length=8)
    webhook_url = models.CharField(max_length=2048, null=True)  # noqa: DJ001 - null means: none
    pieces = ArrayField(models.CharField(max_length=24))
    registered_by = models.CharField(max_length=30, blank=True, help_text="Id of the API key; empty: unknown, or none.")
    registered_at = models.DateTimeField()

    class Meta:
        ordering = ("-id",)
        verbose_name = "registration"
        indexes = (
            models.Index(name="registration_by_service", fields=("service", "id")),
            GinIndex(name="registration_by_piece", fields=("pieces",)),
        )

    def __str__(self) -> str:
        return f"Registration {self.number} of {self.service_id}"


class ServiceDecision(models.Model):
    """What was decided on a registration: the state that its service has since, by whom, when, and why."""

    registration = models.ForeignKey(RegistrationRecord, on_delete=models.PROTECT, related_name="decisions")
    status = models.CharField(
        max_length=16, choices=ServiceStatus, help_text="Pending approval: it was rejected, and is taken up again."
    )
    decided_by = models.CharField(max_length=150, blank=True, help_text="Empty: unknown.")
    decided_at = models.DateTimeField()
    reason = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.CheckConstraint(name="service_decision_known", condition=Q(status__in=ServiceStatus.values)),
        )

    def __str__(self) -> str:
        return f"{self.status} by {self.decided_by}"
