"""Propose a new agent, or a change of an agent's policy; what lets more pass needs a second person (`one_person`)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction

from foundation.commands import AUTHOR
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.money import AmountError, format_amount, parse_amount
from policy.agent_ids import check_is_distinct
from policy.key_operations import revoke_api_key
from policy.models import Agent, PolicyRevision
from policy.one_person import lock_thresholds, takes_two
from policy.operations import Limits, create_agent, limits_of, pause_agent, resume_agent, set_policy, switch_signer
from staff.audit import is_confirmed
from staff.kinds import STOP, Argument, Kind, register
from staff.second_person import Outcome, Proposal, propose

KIND, MAKE_AGENT = "policy.raise", "agent.make"
STOP_SIGNER, START_SIGNER = "signer.stop", "signer.start"
PAUSE, RESUME, REVOKE = "agent.pause", "agent.resume", "api_key.revoke"


def _payees(text: str) -> list[str] | None:
    return None if text == "*" else [one for one in text.split(",") if one]


_OF_AGENT = {"agent": Argument("The agent's id.")}
_LIMITS = {
    "max_per_payment": "Limit of a single payment.",
    "daily_limit": "Limit of any 24 hours.",
    "weekly_limit": "Limit of any 7 days.",
}
_PAYEES = "The ids of the payees that it may pay, with commas between them; or * for all."


def register_kinds() -> None:
    """Make the kinds of changes of agents, keys and the signer known."""
    of_new = {name: Argument(says) for name, says in _LIMITS.items()}
    of_new["allowed_services"] = Argument(_PAYEES, _payees)
    of_known = {name: replace(one, is_needed=False) for name, one in of_new.items()}
    seen = Argument("The number of the revision that was looked at; no other one is changed.", int, is_needed=False)
    change, switch = "policy.change_agent", "policy.change_signerswitch"
    register(
        Kind(
            MAKE_AGENT, "Make an agent", "policy.add_agent", _make_agent, is_rehearsed=True,
            takes={**_OF_AGENT, "asset": Argument(f"The allowance's asset: {', '.join(Asset)}.", _asset), **of_new},
        ),
        Kind(KIND, "Set the limits of an agent", change, _perform, takes={**_OF_AGENT, "revision": seen, **of_known}),
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
    arguments = {"agent": agent_id, "asset": asset.value, **_written(limits)}
    proposal = Proposal(MAKE_AGENT, "new_agent", agent_id, arguments, shown, reason)
    with transaction.atomic():
        lock_thresholds()
        return propose(proposal, by=by, needs_second=takes_two(agent_id, asset, limits))


def propose_policy(
    seen: PolicyRevision, limits: Limits, *, shown: Sequence[tuple[str, str]], reason: str, by: User | AnonymousUser
) -> Outcome:
    """Change the policy that somebody has seen, at once or, if it lets more pass, once a second person confirms it.

    Raises:
        OperationRefused: the policy has changed since, a limit is not an amount, no reason, or without the permission.
    """
    arguments = {
        "agent": seen.agent_id,
        "revision": seen.number,
        **_written(limits),
    }
    proposal = Proposal(KIND, "policy", seen.agent_id, arguments, shown, reason)
    asset = Asset(seen.agent.asset)
    with transaction.atomic():
        lock_thresholds()
        return propose(proposal, by=by, needs_second=takes_two(seen.agent_id, asset, limits, old=limits_of(seen)))


def _written(limits: Limits) -> dict[str, Any]:
    return {
        "max_per_payment": format_amount(limits.max_per_payment),
        "daily_limit": format_amount(limits.daily_limit),
        "weekly_limit": format_amount(limits.weekly_limit),
        "allowed_services": None if limits.allowed_services is None else list(limits.allowed_services),
    }


def limits_asked(arguments: Mapping[str, Any], asset: Asset) -> Limits:
    """Read the limits that a proposal asks for.

    Raises:
        OperationRefused: one is no amount of the asset.
    """
    return Limits(**_members_asked(arguments, asset))


def _members_asked(arguments: Mapping[str, Any], asset: Asset) -> dict[str, Any]:
    asked = {name: arguments[name] for name in (*_LIMITS, "allowed_services") if name in arguments}
    for name in asked.keys() & _LIMITS.keys():
        try:
            asked[name] = parse_amount(asked[name], asset, allow_zero=True)
        except AmountError as error:
            raise OperationRefused(f"{name}: {error}") from error
    return asked


def _asset(text: str) -> str:
    return Asset(text).value


def _make_agent(arguments: Mapping[str, Any], by: str, reason: str) -> str:
    asset = Asset(arguments["asset"])
    check_is_distinct(arguments["agent"])
    agent = create_agent(
        arguments["agent"],
        asset=asset,
        limits=limits_asked(arguments, asset),
        by=by,
        reason=reason,
        is_by_one=_is_by_one(by),
    )
    return f"Made {agent}. It has no money yet."


def _is_by_one(by: str) -> bool:
    """Tell whether one member of staff lets something pass; what a command lets pass does not count (`one_person`)."""
    return settings.FOUR_EYES and by != AUTHOR and not is_confirmed()


def _perform(arguments: Mapping[str, Any], by: str, reason: str) -> str:
    """Change a policy; what is not named stays as it is."""
    agent = Agent.objects.filter(pk=arguments["agent"]).first()
    if agent is None:
        raise OperationRefused(f"There is no agent {arguments['agent']}.")
    asked = _members_asked(arguments, Asset(agent.asset))
    if not asked:
        raise OperationRefused("Name at least one limit, or allowed_services.")
    revision = set_policy(
        agent.id,
        change=lambda present: replace(present, **asked),
        by=by,
        reason=reason,
        seen=arguments.get("revision"),
        is_by_one=_is_by_one(by),
    )
    return f"The policy of {agent} is {revision} now."


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
