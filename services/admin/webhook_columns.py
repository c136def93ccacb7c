"""Columns and links that the pages of webhooks share: badges, links between pages, text from receivers."""

from typing import Any, TypeVar
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.text import Truncator

from foundation.console.columns import Column, column_of
from foundation.console.figures import printable
from policy.models import Agent
from services.models import WebhookEndpoint, agent_of_endpoint, endpoint_of_agent
from services.webhooks.queries import state_of

_Row = TypeVar("_Row", bound=Model)


def link(model: str, pk: str, words: str | None = None) -> str:
    """Link the page of a row of this app."""
    page = reverse(f"admin:services_{model}_change", args=[quote(pk)])
    return format_html('<a href="{}">{}</a>', page, words or pk)


def list_link(model: str, words: object, **query: str) -> str:
    """Link a list of this app, searched and filtered as `query` says."""
    page = reverse(f"admin:services_{model}_changelist")
    return format_html('<a href="{}?{}">{}</a>', page, urlencode(query), words)


def endpoint_badge(endpoint: WebhookEndpoint) -> str:
    """Colour the state of an endpoint, which was read with its service."""
    return format_html('<span class="badge endpoint {0}">{0}</span>', state_of(endpoint))


def rotation(endpoint: WebhookEndpoint) -> str:
    """Say when and why the signing secret was rotated, and who needs it; "" if it never was."""
    if endpoint.secret_rotated_at is None:
        return ""
    whose = "payee" if endpoint.agent_id is None else "agent's owner"
    when = f"{endpoint.secret_rotated_at:%Y-%m-%d %H:%M:%S} UTC"
    return f"Rotated {when}. {endpoint.secret_rotated_reason} The {whose} needs the new one."


def foreign(field: str, length: int = 2000) -> Column:
    """Make a column for a line that may hold text from a receiver."""
    return column_of(field, lambda value: format_html("<bdi>{}</bdi>", Truncator(printable(value)).chars(length)))


def url_column(field: str = "url") -> Column:
    """Make a column for an address that may be long; a list shows its beginning, and all of it on hover."""
    return column_of(field, lambda value: format_html('<code title="{0}">{0}</code>', value), "URL")


def answer_column() -> Column:
    """Make a column for the answer of an endpoint, shown as text whatever its type."""
    return column_of("answer", lambda value: format_html('<pre dir="auto">{}</pre>', printable(value)))


def link_receiver(endpoint_id: str) -> str:
    """Link the payee, or the agent, whose endpoint it is."""
    agent_id = agent_of_endpoint(endpoint_id)
    if agent_id is None:
        return link("service", endpoint_id)
    page = reverse("admin:policy_agent_change", args=[quote(agent_id)])
    return format_html('<a href="{}">agent {}</a>', page, agent_id)


def endpoint_link(endpoint_id: str) -> str:
    """Show the state of an endpoint, and link its page; a dash where there is none."""
    endpoint = WebhookEndpoint.objects.filter(pk=endpoint_id).select_related("service").first()
    if endpoint is None:
        return "—"
    return format_html("{} {}", endpoint_badge(endpoint), link("webhookendpoint", endpoint.pk, "its address and state"))


@admin.display(description="endpoint")
def endpoint_of_owner(agent: Agent) -> str:
    """Show the endpoint at which an agent's owner is told of payments that a person has to approve."""
    return endpoint_link(endpoint_of_agent(agent.pk))


@admin.display(description="deliveries")
def deliveries_to_owner(agent: Agent) -> str:
    """Link the webhooks that an agent's owner was sent."""
    return list_link("webhookdelivery", "webhooks that were sent to its owner", q=endpoint_of_agent(agent.pk))


def receiver_column(field: str = "endpoint_id") -> Column:
    """Make a column for who receives the event."""
    return column_of(field, link_receiver, "receiver")


def status_column() -> Column:
    """Make a column for the HTTP status, if there was an answer."""
    return column_of("status", str, "status")


def duration_column() -> Column:
    """Make a column for how long an attempt took."""
    return column_of("duration_ms", lambda value: f"{value / 1000:.3f} s", "took")


def sender_column() -> Column:
    """Make a column that says whether staff or the schedule sent it."""
    return column_of("is_by_hand", lambda value: "by hand" if value else "by schedule", "sent")


def of_event_or_service(rows: QuerySet[_Row], term: str, *, event: str) -> QuerySet[_Row]:
    """Search rows by a whole id: of an event, which the column `event` holds, or of an endpoint. Nothing finds all."""
    term = term.strip()
    if not term:
        return rows
    # One index or the other: an OR of the two would read the whole table.
    is_event = rows.model._default_manager.filter(**{event: term}).exists()  # noqa: SLF001 - Django documents it
    return rows.filter(**{event if is_event else "endpoint_id": term})


class SenderFilter(admin.SimpleListFilter):
    """Those that staff sent, or those that the schedule did."""

    title = "who sent it"
    parameter_name = "by_hand"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "By hand"), ("no", "By schedule")]

    def queryset(self, _request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset if self.value() is None else queryset.filter(is_by_hand=self.value() == "yes")
