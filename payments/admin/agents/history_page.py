"""The page of every policy that an agent has had: what changed, who changed it and why."""

from dataclasses import dataclass
from itertools import zip_longest

from django.contrib.admin.utils import unquote
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404

from foundation.console.views import show_page, staff_page
from payments.admin.agents.differences import Difference, compare
from policy.models import Agent, PolicyRevision
from policy.revisions import limits_of
from staff.models import AuditEntry

_PER_PAGE = 50


@dataclass(frozen=True, slots=True)
class Past:
    """A revision, how it differs from the one before, and what the audit has of it (None: from before the audit)."""

    revision: PolicyRevision
    differences: list[Difference]
    recorded: AuditEntry | None
    is_present: bool


@staff_page("policy.view_agent")
def show_history(request: HttpRequest, agent_id: str) -> HttpResponse:
    """Show the revisions of an agent's policy, newest first, a page of them; each leads back to itself."""
    agent = get_object_or_404(Agent, pk=unquote(agent_id))
    revisions = PolicyRevision.objects.filter(agent=agent).order_by("-number")
    before = request.GET.get("before", "")
    if before.isdecimal() and len(before) < len(str(2**31)):
        revisions = revisions.filter(number__lt=int(before))
    rows = list(revisions[: _PER_PAGE + 1])
    return show_page(
        request,
        "console/agents/history.html",
        title=f"Policies of {agent.pk}",
        agent=agent,
        pasts=_pasts(agent, rows)[:_PER_PAGE],
        before=rows[_PER_PAGE - 1].number if len(rows) > _PER_PAGE else None,
    )


def _pasts(agent: Agent, rows: list[PolicyRevision]) -> list[Past]:
    entries = AuditEntry.objects.filter(
        subject_type__in=("policy", "agent"),
        subject=agent.pk,
        action__in=("policy.changed", "agent.created"),
        after__policyRevision__in=[str(row) for row in rows],
    )
    recorded = {entry.after["policyRevision"]: entry for entry in entries if entry.after}
    return [
        Past(
            row,
            compare(None if older is None else limits_of(older), limits_of(row), agent.asset),
            recorded.get(str(row)),
            row.number == agent.policy_revision,
        )
        for row, older in zip_longest(rows, rows[1:])
    ]
