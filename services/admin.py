"""The console: what all its pages share, and the pages of services and webhook events.

Every page only shows; what staff may do, they do through actions that call the operation the command line calls.
Who may look at a model has Django's `view` permission on it, who may act on its rows has `change`.
"""

import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.text import Truncator, capfirst

from allowance.kernel.errors import OperationRefused
from allowance.kernel.money import format_amount
from services.chains import find_chain
from services.models import Service, WebhookEvent
from services.operations import approve_service, disable_service, reject_service

Column = Callable[[Any], Any]


class CappedPaginator(Paginator):
    """Pages of a table that may be large: at most `count_limit` rows are counted. Older ones are found by searching."""

    count_limit = 5_000

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows[: self.count_limit].count())

    @property
    def is_capped(self) -> bool:
        return self.count == self.count_limit


class ReadOnlyAdmin(admin.ModelAdmin):
    """Pages that show rows and change none. Actions marked `permissions=["operate"]` need `change` on the model."""

    list_per_page = 50
    list_max_show_all = 50
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by = ()
    fields: ClassVar[Any] = None  # the stubs do not know that columns may stand here, too
    fieldsets: ClassVar[Any] = None
    paginator = CappedPaginator

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return super().has_change_permission(request)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        # Django shows the list to those who may do nothing with it, whatever they post.
        if request.method == "POST" and not self.get_actions(request):
            raise PermissionDenied
        title = capfirst(self.opts.verbose_name_plural)
        return super().changelist_view(request, {"title": title, **(extra_context or {})})

    def perform(self, request: HttpRequest, ids: Iterable[str], operation: Callable[[str], Model], done: str) -> None:
        """Call an operation on each row; tell how each went, and keep what was done in the row's history."""
        for row_id in ids:
            try:
                row = operation(row_id)
            except OperationRefused as refusal:
                self.message_user(request, str(refusal), messages.ERROR)
            else:
                self.log_change(request, row, f"{done}.")
                self.message_user(request, f"{done} {row}.", messages.SUCCESS)


def amount(field: str, description: str | None = None) -> Column:
    """Make a column that writes an amount as the API does."""
    return _column(field, format_amount, description)


def instant(field: str, description: str | None = None) -> Column:
    """Make a column that writes a moment in UTC."""
    return _column(field, lambda value: f"{value:%Y-%m-%d %H:%M:%S}", f"{description or _words(field)} (UTC)")


def badge(field: str) -> Column:
    """Make a column that colours a state."""
    return _column(field, lambda value: format_html('<span class="badge {}">{}</span>', value, _words(value)))


def mono(field: str, description: str | None = None) -> Column:
    """Make a column for what is compared letter by letter: addresses, hashes, ids."""
    return _column(field, lambda value: format_html("<code>{}</code>", value), description)


def text(field: str, length: int = 1000) -> Column:
    """Make a column for a caller's own words: their writing direction is kept from what stands beside them."""
    return _column(field, lambda value: format_html("<bdi>{}</bdi>", Truncator(value).chars(length)))


def chain(field: str = "chain") -> Column:
    """Make a column that names a chain as people do."""
    return _column(field, lambda caip2: known.alias if (known := find_chain(caip2)) else caip2)


def pretty_json(field: str) -> Column:
    """Make a column that lays JSON, text or value, out for reading."""
    return _column(field, lambda value: format_html("<pre>{}</pre>", _laid_out(value)))


def _column(field: str, show: Callable[[Any], Any], description: str | None = None) -> Column:
    @admin.display(description=description or _words(field), ordering=field)
    def column(row: Any) -> Any:
        value = getattr(row, field)
        return "—" if value is None or value == "" else show(value)

    column.__name__ = f"shown_{field}"  # not the field's own name: Django would add its help text
    return column


def _words(name: str) -> str:
    return name.replace("_", " ")


def _laid_out(value: Any) -> str:
    return json.dumps(json.loads(value) if isinstance(value, str) else value, indent=2, ensure_ascii=False)


@admin.register(Service)
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

    @admin.action(description="Approve … (shows what will be approved)", permissions=["operate"])
    def approve(self, request: HttpRequest, services: QuerySet[Service]) -> HttpResponse | None:
        shown = dict(_read_shown(line) for line in request.POST.getlist("shown"))
        if not shown:
            context = {**self.admin_site.each_context(request), "title": "Approve services", "opts": self.opts}
            return TemplateResponse(request, "admin/services/service/approve.html", {**context, "services": services})
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


def _read_shown(line: str) -> tuple[str, int]:
    number, _, service_id = line.partition(" ")
    if not number.isdecimal():
        raise SuspiciousOperation("What is approved must be a registration that was shown.")
    return service_id, int(number)


@admin.register(WebhookEvent)
class WebhookEventAdmin(ReadOnlyAdmin):
    list_display = ("id", instant("created_at"), "type", "service_id")
    search_fields = ("id__exact",)
    fields = ("id", instant("created_at"), "type", "service", pretty_json("payload"))
