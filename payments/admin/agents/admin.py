"""The console's list of agents and the page of one: what it may spend, and what staff may do to it."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, ClassVar, cast

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path

from foundation.console.columns import instant, mono
from foundation.console.confirmation import Shown, confirm
from foundation.console.figures import show_amount
from foundation.kernel.times import utc_now
from ledger.queries import find_budgets
from payments.admin.agents.archive import ARCHIVE, RESTORE, ArchiveFilter, is_possible
from payments.admin.agents.columns import BUDGET_COLUMNS, SORTABLE, budget_of, gas_column, gas_facts, state_column
from payments.admin.agents.follow_page import follow
from payments.admin.agents.funding_page import show_funding
from payments.admin.agents.history_page import show_history
from payments.admin.agents.inlines import INLINES
from payments.admin.agents.levels import count_below, find_pausing
from payments.admin.agents.new_agent import make_agent
from payments.admin.agents.overview import show_overview
from payments.admin.agents.owner_webhook import OwnerWebhookActions
from payments.admin.agents.policy_pages import edit_policy
from payments.admin.agents.shadow_page import show_shadow
from payments.admin.agents.template_pages import TEMPLATE_PAGES
from payments.admin.agents.tree_page import UnderFilter, show_tree
from payments.admin.agents.usage import AgentsByUsage, NeedFilter, OrderFilter, read_order
from payments.admin.balance_actions import BalanceActions
from payments.settling.agent_gas import find_gas_use
from policy.admin.key_forms import ReasonForm
from policy.agent_archive import archive_agent, restore_agent
from policy.models import Agent
from policy.parents import PATH
from policy.proposals import PAUSE, RESUME
from services.admin.webhook_columns import deliveries_to_owner, endpoint_of_owner
from staff.kinds import make
from staff.lists import ListedAdmin
from staff.reauthentication import reauthenticate_first


@admin.register(Agent)
class AgentAdmin(BalanceActions, OwnerWebhookActions, ListedAdmin):
    list_display = ("id", state_column, "asset", *BUDGET_COLUMNS, gas_column)
    sortable_by: ClassVar[Any] = SORTABLE
    list_filter = ("status", "asset", NeedFilter, OrderFilter, UnderFilter, ArchiveFilter)
    export_columns = {
        "id": attrgetter("pk"), "status": attrgetter("status"), "asset": attrgetter("asset"),
        "balance": attrgetter("balance"), "spentTotal": attrgetter("spent_total"),
        "policyRevision": lambda agent: f"polrev_{agent.policy_revision}", "createdAt": attrgetter("created_at"),
    }  # fmt: skip
    search_fields = ("id",)
    search_help_text = "A part of an agent's id."
    fieldsets = (
        ("Allowance", {"fields": ("asset", gas_facts, instant("created_at"))}),
        ("Newest decision", {"fields": (mono("last_entry_id"), mono("last_entry_hash"), instant("last_entry_at"))}),
        ("Webhook of its owner", {"fields": (endpoint_of_owner, deliveries_to_owner)}),
    )
    inlines = INLINES
    actions = ("pause", "resume", "adjust", "withdraw", "set_webhook", "archive", "restore")

    def is_possible(self, action: str, row: Any) -> bool:
        return is_possible(action, row)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return admin.ModelAdmin.has_add_permission(self, request)

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return cast("HttpResponse", make_agent(request))

    def get_urls(self) -> list[URLPattern]:
        pages = (
            ("policy", edit_policy), ("history", show_history), ("fund", show_funding), ("follow", follow),
            ("shadow", show_shadow), ("tree", show_tree),
        )  # fmt: skip
        own = [path(f"<path:agent_id>/{name}/", view, name=f"policy_agent_{name}") for name, view in pages]
        return [*TEMPLATE_PAGES, *own, *super().get_urls()]

    def get_paginator(
        self, request: HttpRequest, queryset: QuerySet[Agent], per_page: int, *args: Any, **options: Any
    ) -> Paginator:
        order = read_order(request)
        if order is None:
            by_name: Paginator = super().get_paginator(request, queryset, per_page, *args, **options)
            return by_name
        ordered: Any = AgentsByUsage(queryset, order)
        return Paginator(ordered, per_page)

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """Read the budgets and gas of all agents on the page at once."""
        page = super().get_changelist_instance(request)
        # Django takes the rows from the query where one page holds them all.
        agents = list(page.paginator.page(page.page_num) if read_order(request) else page.result_list)
        budgets = find_budgets([agent.id for agent in agents])
        used = find_gas_use(utc_now(), includes_history=False) if agents else []
        pausing, below = find_pausing(agents), count_below(agent.id for agent in agents)
        for agent in agents:
            vars(agent)["budget"] = budgets[agent.id]
            vars(agent)["gas"] = [use for use in used if use.agent_id == agent.id]
            vars(agent)["paused_by"], vars(agent)["below"] = pausing.get(agent.id, ""), below[agent.id]
        page.result_list = agents
        return page

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        context = {**show_overview(unquote(object_id)), **(extra_context or {})}
        return super().change_view(request, object_id, form_url, context)

    @admin.action(description="Pause …", permissions=["operate"])
    def pause(self, request: HttpRequest, agents: QuerySet[Agent]) -> HttpResponse | None:
        why = "From now on every payment of the agent is refused. What is approved already is still paid."
        return self._change_status(request, agents, _make(PAUSE), ("Pause", why, ""))

    @admin.action(description="Resume …", permissions=["operate"])
    def resume(self, request: HttpRequest, agents: QuerySet[Agent]) -> HttpResponse | None:
        if (detour := reauthenticate_first(request)) is not None:
            return detour
        why = "From now on the agent's payments are judged by its policy again."
        return self._change_status(request, agents, _make(RESUME), ("Resume", why, ""))

    @admin.action(description="Archive …", permissions=["operate"])
    def archive(self, request: HttpRequest, agents: QuerySet[Agent]) -> HttpResponse | None:
        return self._change_status(request, agents.order_by(PATH.desc()), archive_agent, ARCHIVE)

    @admin.action(description="Restore …", permissions=["operate"])
    def restore(self, request: HttpRequest, agents: QuerySet[Agent]) -> HttpResponse | None:
        if (detour := reauthenticate_first(request)) is not None:
            return detour
        return self._change_status(request, agents.order_by(PATH), restore_agent, RESTORE)

    def _change_status(
        self,
        request: HttpRequest,
        agents: QuerySet[Agent],
        operation: Callable[..., Agent | str],
        words: tuple[str, str, str],
    ) -> HttpResponse | None:
        """Ask for a reason, then do it; `words`: a title, what will happen, and what was done (or "": as it says)."""
        title, explanation, done = words
        form = ReasonForm.read(request.POST)
        if form.is_valid():
            by, reason = request.user.get_username(), form.cleaned_data["reason"]
            ids = agents.values_list("pk", flat=True)
            self.perform(request, ids, lambda pk: operation(pk, by=by, reason=reason), done)
            return None
        rows = [Shown(agent.id, agent.id, _facts(agent)) for agent in _with_budgets(agents)]
        action = request.POST["action"]
        return confirm(self, request, action=action, title=title, explanation=explanation, rows=rows, form=form)


def _make(kind: str) -> Callable[..., str]:
    return lambda pk, **said: make(kind, {"agent": pk}, **said)


def _with_budgets(agents: QuerySet[Agent]) -> Sequence[Agent]:
    rows = list(agents)
    budgets = find_budgets([agent.id for agent in rows])
    for agent in rows:
        vars(agent)["budget"] = budgets[agent.id]
    return rows


def _facts(agent: Agent) -> dict[str, str]:
    budget = budget_of(agent)
    return {
        "Status": agent.state,
        "Balance": f"{show_amount(budget.balance)} {agent.asset}",
        "Spent in 24 hours": f"{show_amount(budget.spent_today)} of {show_amount(budget.daily_limit)}",
        "Spent in 7 days": f"{show_amount(budget.spent_this_week)} of {show_amount(budget.weekly_limit)}",
    }
