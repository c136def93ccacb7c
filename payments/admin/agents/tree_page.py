"""The page of a tree: an agent, all above it, and those below them, each with what it has and has used."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.contrib.admin.utils import unquote
from django.db.models import Case, F, Func, IntegerField, Q, QuerySet, When
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404

from foundation.console.filters import Field, FieldFilter
from foundation.console.links import list_page
from foundation.console.views import show_page, staff_page
from foundation.groups import read_reachable
from ledger.queries import Budget, find_budgets
from payments.admin.agents.archive import AT_REST
from payments.admin.agents.levels import count_below, nearest
from payments.admin.agents.usage import held_words, usage_bar
from policy.models import Agent, AgentStatus
from policy.parents import PATH

_MOST_SHOWN = 200
_MOST_OFFERED = 200


@dataclass(slots=True)
class Node:
    """An agent in its tree, with those right below it that are shown; `hidden`: how many below it are not."""

    agent: Agent
    budget: Budget
    is_asked: bool
    paused_by: str
    below: "list[Node]" = field(default_factory=list)
    hidden: int = 0

    @property
    def bars(self) -> list[tuple[str, Any]]:
        one = self.budget
        return [
            ("Last 24 hours", usage_bar(one.spent_today, one.daily_limit, f"daily limit of {one.agent_id}")),
            ("Last 7 days", usage_bar(one.spent_this_week, one.weekly_limit, f"weekly limit of {one.agent_id}")),
        ]

    @property
    def held(self) -> str:
        return held_words(self.budget)

    @property
    def hidden_url(self) -> str:
        return list_page("policy_agent", under=self.agent.pk)


class UnderFilter(FieldFilter):
    """The agents below another one, at any level."""

    title = "under"
    labels = {"under": "Under agent"}

    def queryset(self, request: HttpRequest, queryset: QuerySet[Agent]) -> QuerySet[Agent]:
        above = self.value_of("under").strip()
        return queryset.filter(ancestors__contains=[above]) if above else queryset

    def list_fields(self) -> list[Field]:
        in_trees = Agent.objects.filter(ancestors__isnull=False).order_by("ancestors", "pk")
        found = read_reachable(lambda: in_trees.values_list("pk", flat=True)[:_MOST_OFFERED])
        options = tuple((pk, "") for pk in found[:_MOST_OFFERED])
        return [Field(name, label, self.value_of(name), "text", options) for name, label in self.labels.items()]


@staff_page("policy.view_agent")
def show_tree(request: HttpRequest, agent_id: str) -> HttpResponse:
    """Show the tree that an agent is in: all above it, those below it first, then the others, a bounded number."""
    agent = get_object_or_404(Agent, pk=unquote(agent_id))
    path = [*(agent.ancestors or ()), agent.pk]
    shown = list(_find_shown(agent, path))
    counts = count_below(one.pk for one in shown)
    nodes = _make_nodes(shown, agent)
    for node in nodes.values():
        node.hidden = max(counts[node.agent.pk] - sum(1 + counts[one.agent.pk] for one in node.below), 0)
    return show_page(
        request,
        "console/agents/tree.html",
        title=f"Tree of {agent.pk}",
        agent=agent,
        roots=[nodes[path[0]]],
        total=1 + counts[path[0]],
        shown=len(shown),
        hidden=sum(node.hidden for node in nodes.values()),
    )


def _find_shown(agent: Agent, path: list[str]) -> QuerySet[Agent]:
    """Find the agents of a tree that are shown: upper levels first, so that none comes before its parent."""
    of_tree = Agent.objects.filter(Q(pk__in=path) | (Q(ancestors__contains=path[:1]) & ~AT_REST))
    rank = Case(When(pk__in=path, then=0), When(ancestors__contains=[agent.pk], then=1), default=2)
    depth = Func(F("ancestors"), function="cardinality", output_field=IntegerField())
    return of_tree.order_by(rank, depth, PATH)[:_MOST_SHOWN]


def _make_nodes(shown: list[Agent], asked: Agent) -> Mapping[str, Node]:
    """Make the nodes of agents, each in its parent's, in the order of their ids."""
    budgets = find_budgets([one.pk for one in shown])
    paused = {one.pk for one in shown if one.status == AgentStatus.PAUSED}
    nodes: dict[str, Node] = {}
    for one in sorted(shown, key=lambda one: (len(one.ancestors or ()), one.pk)):
        ancestors = one.ancestors or []
        node = nodes[one.pk] = Node(one, budgets[one.pk], one.pk == asked.pk, nearest(ancestors, paused))
        # Whoever is in the archive is left out, even if somebody below it is not.
        if above := nearest(ancestors, nodes):
            nodes[above].below.append(node)
    return nodes
