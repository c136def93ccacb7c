"""The console's page of the audit: who changed what, when and why. People filter it and take it away as a file."""

from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest, QueryDict
from django.urls import URLPattern, path, reverse

from foundation.console.exports import FORMATS, Columns, stream
from foundation.console.pages import ReadOnlyAdmin
from foundation.console.views import show_page
from staff.admin.audit_filter import AuditFilter
from staff.admin.subjects import link_to
from staff.exporting import record_export
from staff.models import AuditEntry
from staff.words import differences, name_action, name_subject_type

PER_PAGE = 50
COLUMNS: Columns = {
    "id": lambda entry: entry.pk,
    "at": lambda entry: entry.at,
    "author": lambda entry: entry.author,
    "confirmedBy": lambda entry: entry.confirmed_by,
    "action": lambda entry: entry.action,
    "subjectType": lambda entry: entry.subject_type,
    "subject": lambda entry: entry.subject,
    "reason": lambda entry: entry.reason,
    "before": lambda entry: entry.before,
    "after": lambda entry: entry.after,
}


@admin.register(AuditEntry)
class AuditAdmin(ReadOnlyAdmin):
    """Shows its list by moment, page after page, without counting: there may be millions of entries."""

    fieldsets: ClassVar[Any] = None

    def get_urls(self) -> list[URLPattern]:
        export = self.admin_site.admin_view(self.export)
        return [path("export/<str:file_format>/", export, name="staff_auditentry_export"), *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.method == "POST" or not self.has_view_permission(request):
            raise PermissionDenied
        sought = AuditFilter(request.GET)
        entries = list(sought.entries().filter(_older_than(request.GET.get("older", "")))[: PER_PAGE + 1])
        shown, last = entries[:PER_PAGE], entries[PER_PAGE - 1 : PER_PAGE]
        return show_page(
            request,
            "console/audit.html",
            title="Audit",
            form=sought,
            rows=[(entry, name_action(entry.action), _link(entry)) for entry in shown],
            older=_with(request.GET, older=f"{last[0].at.isoformat()} {last[0].pk}") if len(entries) > PER_PAGE else "",
            is_first="older" not in request.GET,
            newest=_with(request.GET),
            files=[(name, reverse("admin:staff_auditentry_export", args=[name])) for name in FORMATS],
            **(extra_context or {}),
        )

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if request.method == "POST" or not self.has_view_permission(request):
            raise PermissionDenied
        entry = AuditEntry.objects.filter(pk=object_id).first() if object_id.isdecimal() else None
        if entry is None:
            raise Http404
        return show_page(
            request,
            "console/audit_entry.html",
            title=name_action(entry.action),
            entry=entry,
            link=_link(entry),
            subject_type=name_subject_type(entry.subject_type),
            differences=differences(entry.before, entry.after),
            is_new=entry.before is None,
            same=urlencode({"q": entry.subject, "subject_type": entry.subject_type}),
            **(extra_context or {}),
        )

    def export(self, request: HttpRequest, file_format: str) -> HttpResponse:
        """Send the entries that are filtered as a file, oldest first."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if file_format not in FORMATS:
            raise Http404
        sought = AuditFilter(request.GET)
        if not sought.is_valid():
            return HttpResponseBadRequest("This is no filter of the audit.")
        record_export(
            request, "audit", file_format, {name: str(asked) for name, asked in sought.cleaned_data.items() if asked}
        )
        answer: Any = stream(sought.entries(), COLUMNS, file_format, name="audit", order="at")
        return answer  # type: ignore[no-any-return]


def _older_than(place: str) -> Q:
    """Read the place in the list where the last page ended; anything else is the beginning."""
    moment, _, number = place.rpartition(" ")
    try:
        at, pk = datetime.fromisoformat(moment), int(number)
    except ValueError:
        return Q()
    return Q(at__lt=at) | Q(at=at, pk__lt=pk)


def _with(asked: QueryDict, **more: str) -> str:
    kept = asked.copy()
    kept.pop("older", None)
    kept.update(more)
    return kept.urlencode()


def _link(entry: AuditEntry) -> str:
    return link_to(entry.subject_type, entry.subject)
