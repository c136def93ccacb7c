"""The console's page of webhook endpoints: their state, their deliveries, and actions of finance staff."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html

from foundation.console.columns import column_of, instant, text
from services.admin.endpoint_actions import EndpointActions
from services.admin.webhook_columns import endpoint_badge, link_receiver, list_link, rotation, url_column
from services.models import WebhookEndpoint
from services.webhooks.queries import EndpointState, in_state, with_numbers


class StateFilter(admin.SimpleListFilter):
    title = "state"
    parameter_name = "state"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        return [(state.value, state.value.capitalize()) for state in EndpointState]

    def queryset(self, _request: HttpRequest, queryset: QuerySet[WebhookEndpoint]) -> QuerySet[WebhookEndpoint]:
        state = self.value()
        return queryset.filter(in_state(EndpointState(state))) if state in set(EndpointState) else queryset


class EndpointAdmin(EndpointActions):
    """The page never shows secrets: an action does, and that is recorded."""

    list_display = (
        column_of("id", str, "receiver"), "state", "shown_url", "waiting_now", "failed_now",
        instant("oldest_waiting_at", "oldest waiting"), instant("failing_since"), text("disabled_reason"),
    )  # fmt: skip
    list_filter = (StateFilter,)
    list_select_related = ("service",)
    search_fields = ("id", "service__name")
    search_help_text = "A part of a payee's id or name, or of an agent's id."
    ordering = ("id",)
    fieldsets = (
        (None, {"fields": ("its_receiver", "shown_url", "state", "signing_secret")}),
        (
            "State",
            {"fields": (instant("succeeded_at", "a recent success"), instant("failing_since"),
                        instant("held_until", "left alone until"), instant("served_at", "last served"))},
        ),
        ("Disabled", {"fields": (instant("disabled_at"), text("disabled_reason"))}),
        (
            "Deliveries",
            {"fields": ("waiting_now", instant("oldest_waiting_at", "oldest waiting was made at"), "failed_now",
                        "attempts")},
        ),
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[WebhookEndpoint]:
        return with_numbers(super().get_queryset(request))

    @admin.display(description="state")
    def state(self, endpoint: WebhookEndpoint) -> str:
        return endpoint_badge(endpoint)

    @admin.display(description="URL")
    def shown_url(self, endpoint: WebhookEndpoint) -> str:
        return str(url_column("its_url")(endpoint))

    @admin.display(description="receiver")
    def its_receiver(self, endpoint: WebhookEndpoint) -> str:
        return link_receiver(endpoint.pk)

    @admin.display(description="signing secret")
    def signing_secret(self, endpoint: WebhookEndpoint) -> str:
        actions = list_link("webhookendpoint", "list", q=endpoint.pk)
        where = format_html("Not shown here. Finance staff show and rotate it by an action of the {}.", actions)
        return format_html("{} {}", where, rotation(endpoint))

    @admin.display(description="waiting")
    def waiting_now(self, endpoint: Any) -> str:
        return list_link("webhookdelivery", endpoint.waiting, q=endpoint.pk, state__exact="waiting")

    @admin.display(description="failed")
    def failed_now(self, endpoint: Any) -> str:
        return list_link("webhookdelivery", endpoint.failed, q=endpoint.pk, state__exact="failed")

    @admin.display(description="attempts")
    def attempts(self, endpoint: WebhookEndpoint) -> str:
        return list_link("webhookattempt", "every attempt", q=endpoint.pk)
