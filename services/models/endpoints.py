"""The endpoints that webhooks go to, and the secrets that they are signed with."""

from typing import Any

from django.db import models
from django.db.models import F, Q, Value
from django.db.models.functions import Concat

from policy.models import Agent
from services.models.payees import Service, ServiceStatus

# What the id of an agent's endpoint begins with, and that of no service does (`services.serializers`).
AGENT = "@"
# Of endpoints.
RECEIVES_EVENTS = Q(service__status=ServiceStatus.APPROVED, service__webhook_url__isnull=False) | Q(url__isnull=False)


def endpoint_of_agent(agent_id: str) -> str:
    """Name the endpoint of an agent, where its owner is told."""
    return AGENT + agent_id


def agent_of_endpoint(endpoint_id: str) -> str | None:
    """Name the agent whose endpoint it is; None: it is a payee's."""
    return endpoint_id.removeprefix(AGENT) if endpoint_id.startswith(AGENT) else None


class WebhookEndpoint(models.Model):
    """A receiver, and how it behaves: at a service's `webhook_url`, or at the `url` where an agent's owner is told.

    Its id is that of the service, or `endpoint_of_agent`, which is no service's. So `service` needs no column.
    """

    id = models.CharField(primary_key=True, max_length=128, db_collation="C", db_column="service_id")
    service: Any = models.ForeignObject(
        Service, on_delete=models.DO_NOTHING, from_fields=("id",), to_fields=("id",), null=True, related_name="+"
    )
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, db_index=False, db_constraint=False, null=True)
    url = models.CharField(max_length=2048, null=True, help_text="Of an agent.")  # noqa: DJ001 - null means: none
    disabled_at = models.DateTimeField(null=True)
    disabled_reason = models.CharField(max_length=200, blank=True, default="")
    failing_since = models.DateTimeField(null=True, help_text="The first failure after the last success.")
    succeeded_at = models.DateTimeField(null=True, help_text="A recent success; not necessarily the last.")
    held_until = models.DateTimeField(null=True, help_text="Left alone until then, as its Retry-After asked.")
    served_at = models.DateTimeField(null=True, help_text="When deliveries to it were last claimed.")
    secret_rotated_at = models.DateTimeField(null=True)
    # The default is the database's, too: its trigger makes endpoints that do not name this column.
    secret_rotated_reason = models.CharField(max_length=600, blank=True, default="", db_default="")

    class Meta:
        constraints = (
            models.CheckConstraint(
                name="webhook_endpoint_disabled_for_a_reason",
                condition=Q(disabled_at=None, disabled_reason="")
                | (Q(disabled_at__isnull=False) & ~Q(disabled_reason="")),
            ),
            models.CheckConstraint(
                name="webhook_endpoint_of_service_or_agent",
                condition=Q(agent=None, url=None) & ~Q(id__startswith=AGENT)
                | Q(agent__isnull=False, id=Concat(Value(AGENT), F("agent"))),
            ),
        )

    def __str__(self) -> str:
        return self.id

    @property
    def its_url(self) -> str | None:
        """The URL that events go to, as far as they may go there now (`receives_events`); None: there is none."""
        if self.agent_id is not None:
            return self.url
        webhook_url: str | None = self.service.webhook_url
        return webhook_url

    @property
    def receives_events(self) -> bool:
        """Tell whether events may go to its URL now. Queries use `RECEIVES_EVENTS`."""
        return self.url is not None if self.agent_id is not None else bool(self.service.receives_events)


class WebhookSecret(models.Model):
    """A secret that deliveries to a service are signed with, encrypted. The one that does not expire is current."""

    endpoint = models.ForeignKey(WebhookEndpoint, on_delete=models.CASCADE, related_name="secrets")
    ciphertext = models.BinaryField(help_text="See services/webhooks/signing_secrets.py.")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(
                name="webhook_secret_one_current", fields=("endpoint",), condition=Q(expires_at=None)
            ),
        )

    def __str__(self) -> str:
        return f"Secret {self.pk} of {self.endpoint_id}"
