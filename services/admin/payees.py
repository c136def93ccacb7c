"""The console's pages of services."""

from functools import partial

from django.contrib import admin
from django.core.exceptions import SuspiciousOperation
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.html import format_html

from allowance.console.pages import Column, ReadOnlyAdmin, badge, column_of, instant, mono, text
from chains.catalogue import find_chain
from services.admin.webhook_columns import endpoint_badge, link, list_link, rotation
from services.models import Service, WebhookEndpoint
from services.operations import approve_service, disable_service, reject_service


def chain(field: str = "chain") -> Column:
    """Make a column that names a chain as people do."""
    return column_of(field, lambda caip2: known.alias if (known := find_chain(caip2)) else caip2)


class ServiceAdmin(ReadOnlyAdmin):
    list_display = (
        "id", text("name"), badge("status"), chain(), mono("address"), "asset", "has_webhook",
        instant("created_at", "registered"), "decided_by", instant("decided_at"),
    )  # fmt: skip
    list_filter = ("status", "asset")
    search_fields = ("id", "name", "address")
    fieldsets = (
        (None, {"fields": ("id", text("name"), badge("status"))}),
        (
            "What an approval covers",
            {"fields": (mono("canonical_recipient", "recipient"), "asset", mono("webhook_url"), "registration")},
        ),
        ("Webhook", {"fields": ("webhook_endpoint", "webhook_deliveries")}),
        ("Decision", {"fields": (mono("approved_recipient"), "decided_by", instant("decided_at"))}),
        (
            "Registration",
            {"fields": (mono("recipient", "recipient as sent"), instant("created_at"), instant("updated_at"))},
        ),
    )
    actions = ("approve", "reject", "disable")

    @admin.display(description="webhook")
    def has_webhook(self, service: Service) -> str:
        return "yes" if service.webhook_url else "—"

    @admin.display(description="endpoint")
    def webhook_endpoint(self, service: Service) -> str:
        endpoint = WebhookEndpoint.objects.filter(pk=service.pk).select_related("service").first()
        if endpoint is None:
            return "—"
        page = link("webhookendpoint", endpoint.pk, "its address and state")
        return format_html("{} {}", endpoint_badge(endpoint), page)

    @admin.display(description="deliveries")
    def webhook_deliveries(self, service: Service) -> str:
        return list_link("webhookdelivery", "webhooks that were sent to it", q=service.pk)

    @admin.action(description="Approve … (shows what will be approved)", permissions=["operate"])
    def approve(self, request: HttpRequest, services: QuerySet[Service]) -> HttpResponse | None:
        shown = dict(_read_shown(line) for line in request.POST.getlist("shown"))
        if not shown:
            context = {**self.admin_site.each_context(request), "title": "Approve services", "opts": self.opts}
            rows = [(service, _rotation(service)) for service in services.select_related("endpoint")]
            return TemplateResponse(request, "admin/services/service/approve.html", {**context, "rows": rows})
        by = request.user.get_username()
        self.perform(request, shown, lambda pk: approve_service(pk, by=by, registration=shown[pk]), "Approved")
        return None

    @admin.action(description="Reject", permissions=["operate"])
    def reject(self, request: HttpRequest, services: QuerySet[Service]) -> None:
        reject = partial(reject_service, by=request.user.get_username())
        self.perform(request, services.values_list("pk", flat=True), reject, "Rejected")

    @admin.action(description="Disable", permissions=["operate"])
    def disable(self, request: HttpRequest, services: QuerySet[Service]) -> None:
        disable = partial(disable_service, by=request.user.get_username())
        self.perform(request, services.values_list("pk", flat=True), disable, "Disabled")


_MOST_DIGITS = 9  # of a registration number


def _rotation(service: Service) -> str:
    return rotation(service.endpoint) if hasattr(service, "endpoint") else ""


def _read_shown(line: str) -> tuple[str, int]:
    number, _, service_id = line.partition(" ")
    if not number.isdecimal() or len(number) > _MOST_DIGITS:
        raise SuspiciousOperation("What is approved must be a registration that was shown.")
    return service_id, int(number)
