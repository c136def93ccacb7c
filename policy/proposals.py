"""Propose a new agent, or a change of an agent's policy; what lets more pass needs a second person (`one_person`)."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction

from foundation.groups import within, within_group_of
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from policy.agent_ids import check_is_distinct
from policy.key_operations import revoke_api_key
from policy.limit_texts import arguments_of_known, arguments_of_new, names_a_limit, read_limits, write_limits
from policy.limits import Limits
from policy.models import Agent, PolicyRevision
from policy.one_person import is_by_one, lock_thresholds, takes_two
from policy.operations import create_agent, pause_agent, resume_agent, set_policy, switch_signer
from policy.parents import path_of
from policy.revisions import check_limits, limits_of
from policy.shadows import end_adopted
from staff.kinds import STOP, Argument, Kind, group_of_agent, register
from staff.second_person import Outcome, Proposal, propose

KIND, MAKE_AGENT = "policy.raise", "agent.make"
STOP_SIGNER, START_SIGNER = "signer.stop", "signer.start"
PAUSE, RESUME, REVOKE = "agent.pause", "agent.resume", "api_key.revoke"
_OF_AGENT = {"agent": Argument("The agent's id.")}
_ABOVE = Argument(
    "The agents that were looked at above it, the root first, with commas between them; no others may be above it.",
    lambda text: [one for one in text.split(",") if one], is_needed=False,
)  # fmt: skip


def register_kinds() -> None:
    """Make the kinds of changes of agents, keys and the signer known."""
    of_new, of_known = arguments_of_new(), arguments_of_known()
    seen = Argument("The number of the revision that was looked at; no other one is changed.", int, is_needed=False)
    change, switch = "policy.change_agent", "policy.change_signerswitch"
    register(
        Kind(
            MAKE_AGENT, "Make an agent", "policy.add_agent", _make_agent, is_rehearsed=True,
            takes={
                **_OF_AGENT, "asset": Argument(f"The allowance's asset: {', '.join(Asset)}.", _asset), "above": _ABOVE,
                **of_new,
            },
        ),
        Kind(
            KIND, "Set the limits of an agent", change, _perform, is_rehearsed=True,
            takes={**_OF_AGENT, "revision": seen, "above": _ABOVE, **of_known},
        ),
        Kind(PAUSE, "Pause an agent", change, _status(pause_agent, "Paused"), takes=_OF_AGENT),
        Kind(RESUME, "Resume an agent", change, _status(resume_agent, "Resumed"), takes=_OF_AGENT),
        Kind(STOP_SIGNER, "Stop the policy signer", switch, _stop_signer, takes={}),
        Kind(START_SIGNER, "Start the policy signer", switch, _start_signer, takes={"stopped_at": STOP}),
        Kind(
            REVOKE, "Revoke an API key", "policy.change_apikey", _revoke,
            takes={"key": Argument("Its id (key_…), or the key itself.")},
        ),
    )  # fmt: skip


def propose_agent(
    agent_id: str,
    asset: Asset,
    limits: Limits,
    *,
    shown: Sequence[tuple[str, str]],
    reason: str,
    by: User | AnonymousUser,
) -> Outcome:
    """Make an agent, at once or once a second person confirms its limits.

    Raises:
        OperationRefused: as of `create_agent`, another agent is taken for it, or no reason.
    """
    arguments = {"agent": agent_id, "asset": asset.value, **_look_above(limits), **write_limits(limits)}
    proposal = Proposal(MAKE_AGENT, "new_agent", agent_id, arguments, shown, reason)
    with within(group_of_agent(arguments)), transaction.atomic():
        lock_thresholds()
        return propose(proposal, by=by, needs_second=takes_two(agent_id, asset, limits))


def propose_policy(
    seen: PolicyRevision, limits: Limits, *, shown: Sequence[tuple[str, str]], reason: str, by: User | AnonymousUser
) -> Outcome:
    """Change the policy that somebody has seen, at once or, if it lets more pass, once a second person confirms it.

    Raises:
        OperationRefused: the policy has changed since, `check_limits` objects, no reason, or without the permission.
    """
    asset = Asset(seen.agent.asset)
    check_limits(asset, limits)  # nobody is asked to confirm what would be refused
    arguments = {"agent": seen.agent_id, "revision": seen.number, **_look_above(limits), **write_limits(limits)}
    proposal = Proposal(KIND, "policy", seen.agent_id, arguments, shown, reason)
    with within_group_of(seen.agent_id), transaction.atomic():
        lock_thresholds()
        return propose(proposal, by=by, needs_second=takes_two(seen.agent_id, asset, limits, old=limits_of(seen)))


def _look_above(limits: Limits) -> dict[str, list[str]]:
    """Give those who are above an agent with these limits: whoever confirms a proposal has seen them."""
    parent = limits.more.parent
    return {} if parent is None else {"above": path_of(parent)}


def _check_above(agent_id: str, arguments: Mapping[str, Any]) -> None:
    """Refuse what was put under others than those that were looked at; call it in the transaction that did."""
    if "above" in arguments and path_of(agent_id)[:-1] != arguments["above"]:
        raise OperationRefused(f"Others are above {agent_id} now than were looked at. Look at it again.")


def _asset(text: str) -> str:
    return Asset(text).value


def _make_agent(arguments: Mapping[str, Any], by: str, reason: str) -> str:
    asset = Asset(arguments["asset"])
    check_is_distinct(arguments["agent"])
    limits = read_limits(arguments, asset)
    with transaction.atomic():
        agent = create_agent(
            arguments["agent"], asset=asset, limits=limits, by=by, reason=reason, is_by_one=is_by_one(by)
        )
        _check_above(agent.id, arguments)
    return f"Made {agent}. It has no money yet."


def _perform(arguments: Mapping[str, Any], by: str, reason: str) -> str:
    """Change a policy; what is not named stays as it is."""
    agent = Agent.objects.filter(pk=arguments["agent"]).first()
    if agent is None:
        raise OperationRefused(f"There is no agent {arguments['agent']}.")
    if not names_a_limit(arguments):
        raise OperationRefused("Name at least one limit, or allowed_services.")
    with transaction.atomic():
        revision = set_policy(
            agent.id,
            change=lambda present: read_limits(arguments, Asset(agent.asset), present),
            by=by,
            reason=reason,
            seen=arguments.get("revision"),
            is_by_one=is_by_one(by),
        )
        _check_above(agent.id, arguments)
        end_adopted(revision, by=by, reason=reason)
    left = PolicyRevision.objects.get(agent=agent, number=revision.number - 1).template
    return f"The policy of {agent} is {revision} now." + (f" It follows the template {left} no more." if left else "")


def _status(operation: Callable[..., Agent], done: str) -> Callable[[Mapping[str, Any], str, str], str]:
    return lambda arguments, by, reason: f"{done} {operation(arguments['agent'], by=by, reason=reason)}."


def _revoke(arguments: Mapping[str, Any], by: str, reason: str) -> str:
    return f"Revoked {revoke_api_key(arguments['key'], by=by, reason=reason)}."


def _start_signer(arguments: Mapping[str, Any], by: str, reason: str) -> str:
    stopped_at = arguments.get("stopped_at")
    seen = None if stopped_at is None else datetime.fromisoformat(stopped_at)
    switch_signer(is_signing=True, by=by, reason=reason, seen=seen)
    return "The policy signer is in service again."


def _stop_signer(_arguments: Mapping[str, Any], by: str, reason: str) -> str:
    switch_signer(is_signing=False, by=by, reason=reason)
    return "The policy signer is out of service."
