"""Agents that will soon be refused: they have spent most of a limit, or their balance will not last."""

from collections.abc import Iterator, Sequence

from foundation.console.figures import named, numbered
from foundation.findings import FINANCE, Finder, Finding, Kind, Page, Severity
from ledger.usage import NEAR_A_LIMIT, RUNS_DRY_WITHIN_DAYS, Usage, find_usage
from policy.models import Agent, AgentStatus

NEAR_LIMIT = Kind(
    "limit",
    "These agents' next payments will be refused until some of what they spent is older than the limit's span.",
    "See what they spent it on. If that is right, raise the limit; if not, pause the agent.",
    "console/agents", told=(FINANCE,),
)  # fmt: skip
DRY = Kind(
    "dry",
    "At the speed of the last days these agents' money is used up soon; then their payments are refused.",
    "Fund them, or let them run dry on purpose.",
    "console/agents", told=(FINANCE,),
)  # fmt: skip


def find_agents_in_need() -> Iterator[Finding]:
    """Find the active agents that have spent most of a limit, and those whose balance will not last."""
    active = Agent.objects.filter(status=AgentStatus.ACTIVE).order_by().values_list("pk", flat=True)
    usage = find_usage(list(active))
    near = sorted((one for one in usage if one.is_near_a_limit), key=lambda one: (-one.used, one.agent_id))
    dry = sorted((one for one in usage if one.runs_dry), key=lambda one: (one.days_left, one.agent_id))
    if near:
        names = named([f"{one.agent_id} ({one.used:.0%})" for one in near])
        above = numbered(len(near), "agent has", "agents have")
        yield _of_agents(NEAR_LIMIT, near, f"{above} used {NEAR_A_LIMIT:.0%} of a limit or more: {names}.")
    if dry:
        names = named([one.agent_id for one in dry])
        left = numbered(len(dry), "agent has", "agents have")
        yield _of_agents(DRY, dry, f"{left} money for less than {RUNS_DRY_WITHIN_DAYS} days: {names}.")


def _of_agents(kind: Kind, agents: Sequence[Usage], sentence: str) -> Finding:
    only = agents[0].agent_id if len(agents) == 1 else ""
    query = {"need": kind.name, "by": "runway" if kind is DRY else "day", "status__exact": "active"}
    page = Page("Look at agents", "policy_agent", query, only)
    return Finding(kind, Severity.WARNING, sentence, page, count=len(agents))


FINDERS = (Finder(find_agents_in_need, (NEAR_LIMIT, DRY)),)
