"""The console's page of webhook attempts: the delivery log itself, newest first."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from foundation.console.columns import badge, instant
from foundation.console.pages import ReadOnlyAdmin
from services.admin.webhook_columns import (
    SenderFilter,
    answer_column,
    duration_column,
    foreign,
    link,
    link_receiver,
    of_event_or_service,
    receiver_column,
    sender_column,
    status_column,
    url_column,
)
from services.models import Outcome, WebhookAttempt


class OutcomeFilter(admin.SimpleListFilter):
    title = "outcome"
    parameter_name = "outcome"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        return [("failure", "Every failure"), *((outcome.value, outcome.replace("_", " ")) for outcome in Outcome)]

    def queryset(self, _request: HttpRequest, queryset: QuerySet[WebhookAttempt]) -> QuerySet[WebhookAttempt]:
        if self.value() == "failure":
            return queryset.exclude(outcome=Outcome.DELIVERED)
        return queryset if self.value() is None else queryset.filter(outcome=self.value())


class StatusFilter(admin.SimpleListFilter):
    title = "HTTP status"
    parameter_name = "status"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        return [(str(first), f"{first}xx") for first in (2, 3, 4, 5)] + [("none", "No answer")]

    def queryset(self, _request: HttpRequest, queryset: QuerySet[WebhookAttempt]) -> QuerySet[WebhookAttempt]:
        value = self.value()
        if value == "none":
            return queryset.exclude(outcome=Outcome.DELIVERED).filter(status=None)
        if value not in {"2", "3", "4", "5"}:
            return queryset
        if value != "2":  # let the small index of failures find them
            queryset = queryset.exclude(outcome=Outcome.DELIVERED)
        return queryset.filter(status__range=(int(value) * 100, int(value) * 100 + 99))


class AttemptAdmin(ReadOnlyAdmin):
    list_display = (
        instant("started_at", "when"), badge("outcome"), status_column(), duration_column(), "event", receiver_column(),
        sender_column(), foreign("detail", 80),
    )  # fmt: skip
    time_field = "started_at"
    list_filter = (OutcomeFilter, StatusFilter, SenderFilter, "started_at")
    search_fields = ("delivery_id", "endpoint_id")  # see get_search_results
    search_help_text = "The whole id of an event or a payee, or @ and an agent's."
    fieldsets = (
        (None, {"fields": ("event", "its_receiver", url_column(), sender_column())}),
        (
            "Outcome",
            {
                "fields": (
                    instant("started_at"),
                    duration_column(),
                    badge("outcome"),
                    status_column(),
                    foreign("detail"),
                )
            },
        ),
        ("The first 2 KiB of the answer", {"fields": (answer_column(),)}),
    )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[WebhookAttempt], search_term: str
    ) -> tuple[QuerySet[WebhookAttempt], bool]:
        return of_event_or_service(queryset, search_term, event="delivery_id"), False

    @admin.display(description="event")
    def event(self, attempt: WebhookAttempt) -> str:
        return link("webhookdelivery", attempt.delivery_id)

    @admin.display(description="receiver")
    def its_receiver(self, attempt: WebhookAttempt) -> str:
        return link_receiver(attempt.endpoint_id)
