"""The registrations of a service on its page in the console, each with what was decided on it, and its audit."""

from typing import Any

from django.contrib import admin
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import mark_safe

from foundation.console.columns import mono, text
from foundation.console.inlines import NewestFormSet, ReadOnlyInline
from policy.models import ApiKey
from services.dossiers import name_chain, name_key
from services.models import RegistrationRecord, ServiceDecision, ServiceStatus
from staff.models import AuditEntry
from staff.words import name_action

MOST_ROWS = 100


class RegistrationFormSet(NewestFormSet):
    most_rows = MOST_ROWS


class RegistrationInline(ReadOnlyInline):
    model = RegistrationRecord
    formset = RegistrationFormSet
    verbose_name_plural = "registrations, newest first"
    ordering = ("-id",)
    fields = (
        "number", "registered", text("name"), "its_chain", mono("address"), "asset",
        mono("webhook_url", "webhook URL"), "decided",
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[RegistrationRecord]:
        key_name = ApiKey.objects.filter(pk=OuterRef("registered_by")).values("name")
        records: QuerySet[RegistrationRecord] = super().get_queryset(request)
        return records.prefetch_related("decisions").annotate(key_name=Subquery(key_name))

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("services.view_service")  # they are part of it

    @admin.display(description="chain")
    def its_chain(self, record: RegistrationRecord) -> str:
        return name_chain(record.chain)

    @admin.display(description="registered (UTC)")
    def registered(self, record: Any) -> str:
        key = name_key(record.registered_by, record.key_name or "")
        return format_html("{}, key {}", f"{record.registered_at:%Y-%m-%d %H:%M}", key)

    @admin.display(description="decisions")
    def decided(self, record: RegistrationRecord) -> str:
        return format_html_join(mark_safe("<br>"), "{}", ((_in_words(one),) for one in record.decisions.all())) or "—"


def find_audit(service_id: str) -> list[tuple[AuditEntry, str]]:
    """Find the newest entries of the audit on a service, each with its action in words."""
    entries = AuditEntry.objects.filter(subject_type="service", subject=service_id)[:MOST_ROWS]
    return [(entry, name_action(entry.action)) for entry in entries]


def _in_words(decision: ServiceDecision) -> str:
    is_reopening = decision.status == ServiceStatus.PENDING_APPROVAL
    status = "taken up again" if is_reopening else decision.get_status_display().lower()
    when = f"{decision.decided_at:%Y-%m-%d %H:%M} UTC"
    said = format_html("{} by {}, {}", status, decision.decided_by or "somebody", when)
    return format_html("{}: <bdi>{}</bdi>", said, decision.reason) if decision.reason else said
