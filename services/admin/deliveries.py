"""The console's page of webhook deliveries: each event, its state, and every attempt."""

from functools import partial
from typing import Any

from django.contrib import admin
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest

from foundation.console.columns import badge, instant, pretty_json
from foundation.console.inlines import NewestFormSet, ReadOnlyInline
from foundation.console.pages import ReadOnlyAdmin
from foundation.kernel.times import utc_now
from services.admin.webhook_columns import (
    SenderFilter,
    answer_column,
    duration_column,
    foreign,
    link_receiver,
    list_link,
    of_event_or_service,
    receiver_column,
    sender_column,
    status_column,
)
from services.models import Outcome, WebhookAttempt, WebhookDelivery
from services.webhooks.operations import send_again
from services.webhooks.queries import find_overdue

# Source: docs/contract.md, "Webhooks". Services do not know payments, which write most of these.
EVENT_TYPES = (
    "payment.approved", "payment.settled", "payment.failed",
    "approval.requested", "approval.approved", "approval.declined", "approval.expired", "webhook.test",
)  # fmt: skip


class TypeFilter(admin.SimpleListFilter):
    title = "type"
    parameter_name = "type"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in EVENT_TYPES]

    def queryset(self, _request: HttpRequest, queryset: QuerySet[WebhookDelivery]) -> QuerySet[WebhookDelivery]:
        return queryset if self.value() is None else queryset.filter(event__type=self.value())


class OverdueFilter(admin.SimpleListFilter):
    title = "delay"
    parameter_name = "overdue"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "Overdue: no worker claims it")]

    def queryset(self, _request: HttpRequest, queryset: QuerySet[WebhookDelivery]) -> QuerySet[WebhookDelivery]:
        return queryset.filter(pk__in=find_overdue(utc_now()).values("pk")) if self.value() == "yes" else queryset


class ManyNewestFormSet(NewestFormSet):
    """More than a whole schedule, with room for attempts by hand."""

    most_rows = 50


class AttemptInline(ReadOnlyInline):
    model = WebhookAttempt
    formset = ManyNewestFormSet
    verbose_name_plural = "attempts, newest first"
    ordering = ("-id",)
    fields = (
        instant("started_at", "when"), badge("outcome"), status_column(), duration_column(), sender_column(),
        foreign("detail"), answer_column(),
    )  # fmt: skip
    show_change_link = True


class DeliveryAdmin(ReadOnlyAdmin):
    list_display = (
        "event_id", badge("state"), "type", receiver_column(), "made_at", "attempts", "last_answer",
        instant("next_attempt_at", "next attempt"),
    )  # fmt: skip
    list_filter = ("state", TypeFilter, SenderFilter, OverdueFilter)
    search_fields = ("event_id", "endpoint_id")  # see get_search_results
    search_help_text = "The whole id of an event or a payee, or @ and an agent's."
    fieldsets = (
        (None, {"fields": ("event_id", "type", "its_receiver", badge("state"), "made_at")}),
        (
            "Attempts",
            {"fields": ("attempts", sender_column(), instant("next_attempt_at"), instant("delivered_at"), "log")},
        ),
        ("The event", {"fields": ("payload",)}),
    )
    inlines = (AttemptInline,)
    actions = ("send_again",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[WebhookDelivery]:
        newest = WebhookAttempt.objects.order_by("delivery_id", "-id").distinct("delivery_id").defer("answer")
        rows = super().get_queryset(request).select_related("event").defer("event__payload")
        return rows.prefetch_related(Prefetch("log", queryset=newest, to_attr="newest_attempt"))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[WebhookDelivery], search_term: str
    ) -> tuple[QuerySet[WebhookDelivery], bool]:
        return of_event_or_service(queryset, search_term, event="event_id"), False

    @admin.display(description="made at (UTC)")
    def made_at(self, delivery: WebhookDelivery) -> str:
        return f"{delivery.event.created_at:%Y-%m-%d %H:%M:%S}"

    @admin.display(description="type")
    def type(self, delivery: WebhookDelivery) -> str:
        return delivery.event.type

    @admin.display(description="receiver")
    def its_receiver(self, delivery: WebhookDelivery) -> str:
        return link_receiver(delivery.endpoint_id)

    @admin.display(description="last answer")
    def last_answer(self, delivery: Any) -> str:
        for attempt in delivery.newest_attempt:
            is_answered = attempt.outcome in {Outcome.DELIVERED, Outcome.STATUS}
            return str(attempt.status if is_answered else badge("outcome")(attempt))
        return "—"

    @admin.display(description="payload")
    def payload(self, delivery: WebhookDelivery) -> str:
        return str(pretty_json("payload")(delivery.event))

    @admin.display(description="every attempt")
    def log(self, delivery: WebhookDelivery) -> str:
        return list_link("webhookattempt", "in the list of attempts", q=delivery.pk)

    @admin.action(description="Send again", permissions=["operate"])
    def send_again(self, request: HttpRequest, deliveries: QuerySet[WebhookDelivery]) -> None:
        again = partial(send_again, by=request.user.get_username())
        self.perform(request, deliveries.values_list("pk", flat=True), again, "Began to send again")
