"""Propose a new agent, or a change of an agent's policy; what lets more pass needs a second person (`one_person`)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction

from foundation.kernel.assets import Asset
from foundation.kernel.money import format_amount, parse_amount
from policy.agent_ids import check_is_distinct
from policy.models import Agent, PolicyRevision
from policy.one_person import lock_thresholds, takes_two
from policy.operations import Limits, create_agent, limits_of, set_policy, switch_signer
from staff.audit import is_confirmed
from staff.second_person import Kind, Outcome, Proposal, propose, register

KIND, MAKE_AGENT = "policy.raise", "agent.make"
STOP_SIGNER, START_SIGNER = "signer.stop", "signer.start"


def register_kinds() -> None:
    """Make the kinds of changes known that ask for a second person."""
    register(Kind(MAKE_AGENT, "Make an agent", "policy.add_agent", _make_agent, is_rehearsed=True))
    register(Kind(KIND, "Raise the limits of an agent", "policy.change_agent", _perform))
    register(Kind(STOP_SIGNER, "Stop the policy signer", "policy.change_signerswitch", _stop_signer))
    register(Kind(START_SIGNER, "Start the policy signer", "policy.change_signerswitch", _start_signer))


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
    """Read the limits that a proposal asks for."""
    return Limits(
        parse_amount(arguments["max_per_payment"], asset, allow_zero=True),
        parse_amount(arguments["daily_limit"], asset, allow_zero=True),
        parse_amount(arguments["weekly_limit"], asset, allow_zero=True),
        arguments["allowed_services"],
    )


def _make_agent(arguments: Mapping[str, Any], by: str, reason: str) -> str:
    asset = Asset(arguments["asset"])
    check_is_distinct(arguments["agent"])
    agent = create_agent(
        arguments["agent"],
        asset=asset,
        limits=limits_asked(arguments, asset),
        by=by,
        reason=reason,
        is_by_one=_is_by_one(),
    )
    return f"Made {agent}. It has no money yet."


def _is_by_one() -> bool:
    return settings.FOUR_EYES and not is_confirmed()


def _perform(arguments: Mapping[str, Any], by: str, reason: str) -> str:
    asset = Asset(Agent.objects.values_list("asset", flat=True).get(pk=arguments["agent"]))
    limits = limits_asked(arguments, asset)
    revision = set_policy(
        arguments["agent"],
        change=lambda _present: limits,
        by=by,
        reason=reason,
        seen=arguments["revision"],
        is_by_one=_is_by_one(),
    )
    return f"The policy of {arguments['agent']} is {revision} now."


def _start_signer(arguments: Mapping[str, Any], by: str, reason: str) -> str:
    switch_signer(is_signing=True, by=by, reason=reason, seen=datetime.fromisoformat(arguments["stopped_at"]))
    return "The policy signer is in service again."


def _stop_signer(_arguments: Mapping[str, Any], by: str, reason: str) -> str:
    switch_signer(is_signing=False, by=by, reason=reason)
    return "The policy signer is out of service."
