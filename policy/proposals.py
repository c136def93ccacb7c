"""Propose a change of an agent's policy; one that lets more pass needs a second person."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AnonymousUser, User

from allowance.kernel.assets import Asset
from allowance.kernel.money import format_amount, parse_amount
from policy.models import Agent, PolicyRevision
from policy.operations import Limits, limits_of, set_policy, switch_signer
from staff.second_person import Kind, Outcome, Proposal, propose, register

KIND = "policy.raise"
STOP_SIGNER, START_SIGNER = "signer.stop", "signer.start"


def register_kinds() -> None:
    """Make the kinds of changes known that ask for a second person."""
    register(Kind(KIND, "Raise the limits of an agent", "policy.change_agent", _perform))
    register(Kind(STOP_SIGNER, "Stop the policy signer", "policy.change_signerswitch", _stop_signer))
    register(Kind(START_SIGNER, "Start the policy signer", "policy.change_signerswitch", _start_signer))


def lets_more_pass(old: Limits, new: Limits) -> bool:
    """Tell whether a policy has a higher limit than another, or allows a service that the other does not."""
    is_higher = (
        new.max_per_payment > old.max_per_payment
        or new.daily_limit > old.daily_limit
        or new.weekly_limit > old.weekly_limit
    )
    if old.allowed_services is None:
        return is_higher
    return is_higher or new.allowed_services is None or not set(new.allowed_services) <= set(old.allowed_services)


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
        "max_per_payment": format_amount(limits.max_per_payment),
        "daily_limit": format_amount(limits.daily_limit),
        "weekly_limit": format_amount(limits.weekly_limit),
        "allowed_services": None if limits.allowed_services is None else list(limits.allowed_services),
    }
    proposal = Proposal(KIND, "policy", seen.agent_id, arguments, shown, reason)
    return propose(proposal, by=by, needs_second=lets_more_pass(limits_of(seen), limits))


def limits_asked(arguments: Mapping[str, Any], asset: Asset) -> Limits:
    """Read the limits that a proposal asks for."""
    return Limits(
        parse_amount(arguments["max_per_payment"], asset, allow_zero=True),
        parse_amount(arguments["daily_limit"], asset, allow_zero=True),
        parse_amount(arguments["weekly_limit"], asset, allow_zero=True),
        arguments["allowed_services"],
    )


def _perform(arguments: Mapping[str, Any], by: str, reason: str) -> str:
    asset = Asset(Agent.objects.values_list("asset", flat=True).get(pk=arguments["agent"]))
    limits = limits_asked(arguments, asset)
    revision = set_policy(
        arguments["agent"], change=lambda _present: limits, by=by, reason=reason, seen=arguments["revision"]
    )
    return f"The policy of {arguments['agent']} is {revision} now."


def _start_signer(arguments: Mapping[str, Any], by: str, reason: str) -> str:
    switch_signer(is_signing=True, by=by, reason=reason, seen=datetime.fromisoformat(arguments["stopped_at"]))
    return "The policy signer is in service again."


def _stop_signer(_arguments: Mapping[str, Any], by: str, reason: str) -> str:
    switch_signer(is_signing=False, by=by, reason=reason)
    return "The policy signer is out of service."
