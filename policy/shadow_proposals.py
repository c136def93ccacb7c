"""The changes of shadows that people make. They let nothing pass, so one person is enough."""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import AnonymousUser, User

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from policy.limit_texts import arguments_without_parent, names_a_limit, read_limits, write_without_parent
from policy.limits import Limits
from policy.models import Agent
from policy.shadows import begin_shadow, drop_shadow
from staff.kinds import Argument, Kind
from staff.second_person import Outcome, Proposal, propose

BEGIN, DROP = "shadow.begin", "shadow.drop"
_OF_AGENT = {"agent": Argument("The agent's id.")}


def propose_shadow(agent_id: str, limits: Limits, *, reason: str, by: User | AnonymousUser) -> Outcome:
    """Try limits on an agent, at once.

    Raises:
        OperationRefused: as of `begin_shadow`, no reason, or without the permission.
    """
    return _propose(BEGIN, agent_id, write_without_parent(limits), reason, by)


def propose_to_drop(agent_id: str, *, reason: str, by: User | AnonymousUser) -> Outcome:
    """Try limits no more on an agent, at once.

    Raises:
        OperationRefused: it has no shadow, no reason, or without the permission.
    """
    return _propose(DROP, agent_id, {}, reason, by)


def _propose(kind: str, agent_id: str, limits: Mapping[str, Any], reason: str, by: User | AnonymousUser) -> Outcome:
    proposal = Proposal(kind, "shadow", agent_id, {"agent": agent_id, **limits}, [], reason)
    return propose(proposal, by=by, needs_second=False)


def _begin(arguments: Mapping[str, Any], by: str, reason: str) -> str:
    """Try limits; what is not named is as it is in force."""
    agent = Agent.objects.filter(pk=arguments["agent"]).first()
    if agent is None:
        raise OperationRefused(f"There is no agent {arguments['agent']}.")
    if not names_a_limit(arguments):
        raise OperationRefused("Name at least one limit, or allowed_services.")
    asset = Asset(agent.asset)
    begin_shadow(agent.id, change=lambda present: read_limits(arguments, asset, present), by=by, reason=reason)
    return f"These limits are tried on {agent} from now on, and decide nothing."


def _drop(arguments: Mapping[str, Any], by: str, reason: str) -> str:
    drop_shadow(arguments["agent"], by=by, reason=reason)
    return f"The shadow of {arguments['agent']} is dropped."


KINDS = (
    Kind(
        BEGIN,
        "Try limits on an agent",
        "policy.change_agent",
        _begin,
        takes={**_OF_AGENT, **arguments_without_parent()},
    ),
    Kind(DROP, "Drop the shadow of an agent", "policy.change_agent", _drop, takes=_OF_AGENT),
)
