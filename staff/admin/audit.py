"""The console's page of the audit."""

from django.contrib import admin

from allowance.console.pages import ReadOnlyAdmin, instant, mono, text
from staff.models import AuditEntry
from staff.words import name_action


@admin.register(AuditEntry)
class AuditAdmin(ReadOnlyAdmin):
    list_display = (instant("at", "when"), "author", "what", mono("subject"), text("reason", 80), "confirmed_by")
    search_fields = ("subject__exact",)

    @admin.display(description="what")
    def what(self, entry: AuditEntry) -> str:
        return name_action(entry.action)
