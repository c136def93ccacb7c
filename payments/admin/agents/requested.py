"""What a second person sees of a policy that somebody asked for: old and new beside each other, as for the first."""

from typing import Any

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from payments.admin.agents.differences import compare
from payments.admin.agents.limit_warnings import warnings
from payments.admin.agents.moves import say_move
from policy.limit_texts import read_limits
from policy.models import Agent, PolicyRevision
from policy.revisions import limits_of
from staff.models import ChangeRequest

TEMPLATE = "console/agents/requested.html"


def look_at_policy(request: ChangeRequest) -> tuple[str, dict[str, Any]] | None:
    """Give the template and what it needs; None: the policy is not any more the one that was to be changed.

    If only a later release knows a limit, that is all it says: here it cannot be confirmed either.
    """
    agent = Agent.objects.filter(pk=request.subject, policy_revision=request.arguments.get("revision")).first()
    if agent is None:
        return None
    present = PolicyRevision.objects.get(agent=agent, number=agent.policy_revision)
    try:
        limits = read_limits(request.arguments, Asset(agent.asset), limits_of(present))
        differences = compare(limits_of(present), limits, agent.asset)
    except OperationRefused as refusal:
        return TEMPLATE, {"warnings": [str(refusal)]}
    return TEMPLATE, {
        "old_title": f"In force: {present}",
        "differences": differences,
        "warnings": warnings(limits, agent.asset),
        "move": say_move(agent.pk, limits_of(present), limits),
    }
