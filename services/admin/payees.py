"""The console's pages of services."""

from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ChangeList
from django.db.models import Case, QuerySet, When
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html

from chains.catalogue import alias_of
from foundation.console.columns import Column, column_of, instant, mono, text
from services.admin.decision_steps import POSSIBLE
from services.admin.decisions import DecisionActions, show
from services.admin.doubts import draw, find_badges, find_next, find_risky
from services.admin.registrations import RegistrationInline, find_audit
from services.admin.tags import TagFilter
from services.admin.webhook_columns import endpoint_link, list_link
from services.dossiers import find_dossiers
from services.models import Service, ServiceStatus


def chain(field: str = "chain") -> Column:
    """Make a column that names a chain as people do."""
    return column_of(field, alias_of)


class ChainFilter(admin.SimpleListFilter):
    """The chains on which there are services."""

    title = "chain"
    parameter_name = "chain"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        chains = Service.objects.order_by("chain").values_list("chain", flat=True).distinct()
        return [(caip2, alias_of(caip2)) for caip2 in chains]

    def queryset(self, _request: HttpRequest, queryset: QuerySet[Service]) -> QuerySet[Service]:
        return queryset.filter(chain=self.value()) if self.value() else queryset


class ServiceAdmin(DecisionActions):
    """Those that wait for approval stand first: the risky ones, then those that wait longest."""

    list_display = ("id", text("name"), "state", "to_look_at", chain(), mono("address"), "asset", "decision")
    list_filter = ("status", ChainFilter, "asset", TagFilter)
    ordering = ("waiting_since", "id")
    sortable_by: ClassVar[Any] = list_display
    inlines = (RegistrationInline,)
    search_fields = ("id", "name", "address")
    fieldsets: ClassVar[Any] = (
        ("Webhook", {"fields": ("webhook_endpoint", "webhook_deliveries")}),
        ("Decision", {"fields": (mono("approved_recipient"), "decided_by", instant("decided_at"))}),
    )

    def get_ordering(self, request: HttpRequest) -> Any:
        risky = find_risky()
        first = (Case(When(pk__in=risky, then=0), default=1).asc(),) if risky else ()
        return (*first, *self.ordering)

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """Find what stands out about all rows of the page at once."""
        page = super().get_changelist_instance(request)
        rows = list(page.result_list)
        badges = find_badges(rows)
        for row in rows:
            vars(row)["badges"] = badges.get(row.pk, ())
        page.result_list = rows
        return page

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        service = self.get_object(request, unquote(object_id))
        more: dict[str, Any] = {}
        if service is not None:
            more = {"row": show(find_dossiers([service])[0]), "audit": find_audit(service.pk)}
            if self.has_operate_permission(request):
                more["next_waiting"] = find_next(service.pk)
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **more})

    def is_possible(self, action: str, row: Any) -> bool:
        return action in POSSIBLE[ServiceStatus(row.status)]

    @admin.display(description="status", ordering="waiting_since")
    def state(self, service: Service) -> str:
        since = f"since {service.waiting_since:%Y-%m-%d %H:%M}" if service.waiting_since else ""
        words = service.get_status_display().lower()
        shown = format_html('<span class="badge {}">{}</span>', service.status, words)
        return format_html('<div>{}<br><span class="muted">{}</span></div>', shown, since) if since else shown

    @admin.display(description="to look at")
    def to_look_at(self, service: Service) -> str:
        badges = vars(service)["badges"]
        return format_html("<div>{}</div>", draw(badges)) if badges else "—"

    @admin.display(description="decided (UTC)", ordering="decided_at")
    def decision(self, service: Service) -> str:
        if service.decided_at is None:
            return "—"
        return format_html("{}<br>{}", service.decided_by, f"{service.decided_at:%Y-%m-%d %H:%M}")

    @admin.display(description="endpoint")
    def webhook_endpoint(self, service: Service) -> str:
        return endpoint_link(service.pk)

    @admin.display(description="deliveries")
    def webhook_deliveries(self, service: Service) -> str:
        return list_link("webhookdelivery", "webhooks that were sent to it", q=service.pk)
