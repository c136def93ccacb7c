"""The console's list of payments that a person has to approve, and the page of each."""

import json
from operator import attrgetter
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import F, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.html import format_html
from django.utils.text import Truncator

from foundation.console.columns import instant, linked, text
from foundation.console.figures import show_amount
from foundation.console.filters import AssetFilter, DateFilter
from foundation.console.id_filters import AgentFilter, PayeeFilter
from foundation.console.views import show_page
from ledger.models import Hold
from payments.admin.hold_page import show_hold
from payments.admin.hold_states import WORDS, HoldStateFilter, can_be_answered, state_of
from payments.admin.hold_steps import APPROVE, DECLINE
from staff.asking import ask
from staff.lists import ListedAdmin


class HoldPayee(PayeeFilter):
    field = "service"


class HoldAsset(AssetFilter):
    field = "entry__asset"


def _metadata(hold: Hold) -> Any:
    written = hold.entry.metadata_json
    return None if written is None else json.loads(written)


@admin.register(Hold)
class HoldAdmin(ListedAdmin):
    """Those that wait stand first: the one that expires first on top."""

    list_title = "Payments to approve"
    list_display = (
        "id", "state", linked("agent_id", "policy_agent"), text("service", 128, "payee"), "num_asked", "reason",
        instant("created_at", "asked for"), instant("expires_at", "waits until"),
    )  # fmt: skip
    list_filter = (HoldStateFilter, DateFilter, AgentFilter, HoldPayee, HoldAsset)
    list_select_related = ("entry", "final_entry")
    summed = ("entry__asset", "final_entry__result", "amount")
    export_columns = {
        "id": attrgetter("pk"), "createdAt": attrgetter("created_at"), "state": state_of,
        "agentId": attrgetter("agent_id"), "service": attrgetter("service"), "amount": attrgetter("amount"),
        "asset": attrgetter("entry.asset"), "rule": attrgetter("entry.rule"), "reason": attrgetter("entry.reason"),
        "metadata": _metadata, "approvalExpiresAt": attrgetter("expires_at"), "answer": attrgetter("answer"),
        "answeredBy": attrgetter("answered_by"), "answeredAt": attrgetter("answered_at"),
        "answerReason": attrgetter("answer_reason"), "endedAt": attrgetter("ended_at"),
        "logId": attrgetter("entry_id"), "finalLogId": attrgetter("final_entry_id"),
    }  # fmt: skip
    search_fields = ("id__exact", "agent__id__exact", "service__exact")
    search_help_text = "The whole id of a payment, an agent or a payee."
    actions = ("approve", "decline")

    def get_ordering(self, request: HttpRequest) -> Any:
        return (F("ended_at").desc(nulls_first=True), "expires_at", "-id")

    def name_state(self, state: str) -> str:
        return {None: "waits for approval", "approved": "approved"}.get(state, "not approved")

    def is_possible(self, action: str, row: Any) -> bool:
        return can_be_answered(row)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Show one: what a person decides by, and the buttons by which they do."""
        if request.method not in {"GET", "HEAD"} or not self.has_view_permission(request):
            raise PermissionDenied
        hold = get_object_or_404(Hold.objects.select_related("entry", "final_entry"), pk=unquote(object_id))
        shown = {**show_hold(hold), "opts": self.opts, "row_actions": self.buttons(request, hold)}
        return show_page(request, "console/hold.html", title=hold.pk, **shown)

    @admin.display(description="state")
    def state(self, hold: Hold) -> str:
        state = state_of(hold)
        return format_html('<span class="badge {}">{}</span>', state, WORDS[state].lower())

    @admin.display(description="amount")
    def num_asked(self, hold: Hold) -> str:
        return f"{show_amount(hold.amount)} {hold.entry.asset}"

    @admin.display(description="the agent's reason")
    def reason(self, hold: Hold) -> str:
        return format_html("<bdi>{}</bdi>", Truncator(hold.entry.reason).chars(80))

    @admin.action(description="Approve … (shows what will be paid)", permissions=["operate"])
    def approve(self, request: HttpRequest, holds: QuerySet[Hold]) -> HttpResponse | None:
        return ask(self, request, holds, APPROVE)

    @admin.action(description="Decline … (asks for the reason)", permissions=["operate"])
    def decline(self, request: HttpRequest, holds: QuerySet[Hold]) -> HttpResponse | None:
        return ask(self, request, holds, DECLINE)
