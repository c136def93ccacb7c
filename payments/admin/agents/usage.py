"""Usage in the list of agents: bars, runway in words, and lists ordered or filtered by it."""

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from foundation.console.figures import show_amount, show_figure
from ledger.queries import Budget
from ledger.usage import NEAR_A_LIMIT, RUNS_DRY_WITHIN_DAYS, Usage, days_left, find_usage, share
from policy.models import Agent

ORDER = "by"
_MOST_DAYS_TOLD = 365
_NEVER = Decimal("Infinity")

_ORDERS: dict[str, tuple[str, Callable[[Usage], Any]]] = {
    "day": ("Part of the daily limit", lambda one: (-one.of_day, one.agent_id)),
    "week": ("Part of the weekly limit", lambda one: (-one.of_week, one.agent_id)),
    "runway": (
        "Runway, shortest first",
        lambda one: (_NEVER if one.days_left is None else one.days_left, one.agent_id),
    ),
}
_NEEDS: dict[str, tuple[str, Callable[[Usage], bool]]] = {
    "limit": (f"{NEAR_A_LIMIT:.0%} of a limit or more", lambda one: one.is_near_a_limit),
    "dry": (f"Money for less than {RUNS_DRY_WITHIN_DAYS} days", lambda one: one.runs_dry),
}


class NeedFilter(admin.SimpleListFilter):
    title = "what it needs"
    parameter_name = "need"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        return [(value, words) for value, (words, _) in _NEEDS.items()]

    def queryset(self, _request: HttpRequest, queryset: QuerySet[Agent]) -> QuerySet[Agent]:
        if self.value() not in _NEEDS:
            return queryset
        needs = _NEEDS[str(self.value())][1]
        return queryset.filter(pk__in=[one.agent_id for one in _usage_of(queryset) if needs(one)])


class OrderFilter(admin.SimpleListFilter):
    """A choice that `AgentsByUsage` follows: the query itself stays as it is."""

    title = "order"
    parameter_name = ORDER
    any_words = "By id"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        return [(value, words) for value, (words, _) in _ORDERS.items()]

    def queryset(self, _request: HttpRequest, queryset: QuerySet[Agent]) -> QuerySet[Agent]:
        return queryset


class AgentsByUsage:
    """Agents in the order of their usage, as a paginator takes them: only the rows of a page are read."""

    def __init__(self, agents: QuerySet[Agent], order: str) -> None:
        self._ids = [one.agent_id for one in sorted(_usage_of(agents), key=_ORDERS[order][1])]

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, places: slice) -> Sequence[Agent]:
        rows = Agent.objects.in_bulk(self._ids[places])
        return [rows[agent_id] for agent_id in self._ids[places] if agent_id in rows]


def read_order(request: HttpRequest) -> str | None:
    """Read in which order a list is asked for; None: by id."""
    order = request.GET.get(ORDER)
    return order if order in _ORDERS else None


def _usage_of(agents: QuerySet[Agent]) -> list[Usage]:
    return find_usage(list(agents.order_by().values_list("pk", flat=True)))


def usage_bar(used: Decimal | int, limit: Decimal | int, name: str) -> SafeString:
    """Draw what is used of a limit, of an amount or of a number of payments, and say it; `name` is the limit's."""
    part = share(Decimal(used), Decimal(limit))
    return format_html(
        '<meter class="usage" min="0" max="1" low="{}" high="0.95" optimum="0" value="{}" aria-label="{}"></meter>'
        '<br><span class="muted">{} of {} ({})</span>',
        NEAR_A_LIMIT,
        f"{min(max(part, Decimal(0)), Decimal(1)):.4f}",
        f"used of the {name}",
        show_figure(used),
        show_figure(limit),
        f"{part.quantize(Decimal('0.01'), ROUND_HALF_UP):.0%}",
    )


def runway(budget: Budget) -> str:
    """Say how long the balance lasts at the rate of the last seven days."""
    days = days_left(budget.balance, budget.paid_this_week)
    if days is None:
        return "no spend lately"
    if days < 1:
        return "less than a day"
    if days > _MOST_DAYS_TOLD:
        return "more than a year"
    whole = int(days)
    return f"about {whole} day{'' if whole == 1 else 's'}"


def held_words(budget: Budget) -> str:
    """Say how much of an agent's money waits for a person's approval, which is not in its balance; "": nothing."""
    *_, amount = budget.held
    return f"{show_amount(amount)} {budget.asset} more wait for approval" if amount else ""
