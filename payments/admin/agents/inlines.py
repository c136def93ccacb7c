"""What belongs to an agent, below it on its page: keys, decisions, movements."""

from django.contrib import admin

from foundation.console.columns import amount, instant, linked, text
from foundation.console.inlines import ROWS_INLINE, ReadOnlyInline
from ledger.entry_columns import decision_badge
from ledger.judgements import words_of
from ledger.models import BalanceMovement, LogEntry
from policy.models import ApiKey
from services.admin import chain


class ApiKeyInline(ReadOnlyInline):
    model = ApiKey
    verbose_name_plural = "API keys that act for it alone"
    show_change_link = True
    ordering = ("-id",)
    fields = (instant("created_at"), instant("expires_at"), instant("revoked_at"), instant("last_used_at"))


class LogEntryInline(ReadOnlyInline):
    model = LogEntry
    verbose_name_plural = f"newest {ROWS_INLINE} decisions"
    show_change_link = True
    ordering = ("-created_at", "-id")  # as the index of an agent's log
    fields = (instant("created_at"), "decision", text("service", 128, "payee"), "asked_for", "why")

    @admin.display(description="outcome")
    def decision(self, entry: LogEntry) -> str:
        return decision_badge(entry)

    @admin.display(description="amount")
    def asked_for(self, entry: LogEntry) -> str:
        return f"{entry.amount} {entry.asset}"

    @admin.display(description="why")
    def why(self, entry: LogEntry) -> str:
        return words_of(entry)


class BalanceMovementInline(ReadOnlyInline):
    model = BalanceMovement
    verbose_name_plural = f"newest {ROWS_INLINE} balance movements"
    ordering = ("-id",)
    fields = (
        instant("created_at"),
        "kind",
        amount("amount"),
        amount("balance_after"),
        linked("payment_id", "payments_payment"),
        chain(),
        "author",
        "reason",
    )


INLINES = (LogEntryInline, BalanceMovementInline, ApiKeyInline)
