"""The revisions of an agent's policy: their limits, what these may be, and the next revision of a locked agent."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.money import AmountError, to_base_units
from foundation.kernel.times import utc_now
from policy import changes
from policy.limits import Limits, lets_more_pass
from policy.models import Agent, PolicyRevision, PolicyTemplate, ShadowRevision
from policy.more_limits import MoreLimits, given, write_more
from policy.parents import lock_agent, lock_to_move, move
from policy.queries import find_revision_in_force

_MAX_SERVICE_ID_LENGTH = 128


def lock_to_revise(agent_id: str, change: Callable[[Limits], Limits]) -> Agent:
    """Lock an agent for its next policy revision; if that names another parent, all agents that its move is about.

    Raises:
        OperationRefused: no such agent, or it was moved while it was waited for: what is locked may not be all then.
    """
    present = find_revision_in_force(agent_id)
    if present is None:
        raise OperationRefused(f"There is no agent {agent_id}.")
    parent = change(limits_of(present)).more.parent
    agent = lock_agent(agent_id) if parent == present.more.parent else lock_to_move(agent_id, parent)
    if PolicyRevision.objects.get(agent=agent, number=agent.policy_revision).more.parent != present.more.parent:
        raise OperationRefused(f"{agent_id} was moved meanwhile. Try again.")
    return agent


def revise(
    agent: Agent, change: Callable[[Limits], Limits], *, by: str, reason: str, is_by_one: bool,
    now: datetime | None = None, template: str = "",
) -> PolicyRevision:  # fmt: skip
    """Make the next policy revision of a locked agent, as `set_policy`; `template`: what it follows from then on.

    Raises:
        OperationRefused: a limit is not an amount of its asset.
    """
    present = PolicyRevision.objects.get(agent=agent, number=agent.policy_revision)
    agent.policy_revision += 1
    agent.save(update_fields=["policy_revision"])
    limits = change(limits_of(present))
    check_limits(Asset(agent.asset), limits)  # before they are compared: NaN is neither more nor less
    if limits.more.parent != present.more.parent:
        move(agent, limits.more.parent)
    is_by_one = is_by_one if lets_more_pass(limits_of(present), limits) else present.is_by_one
    revision = add_revision(agent, limits, by, now or utc_now(), is_by_one=is_by_one, template=template)
    changes.record_policy(present, revision, by=by, reason=reason)
    return revision


def add_revision(
    agent: Agent, limits: Limits, by: str, now: datetime, *, is_by_one: bool, template: str = ""
) -> PolicyRevision:
    """Add the revision that has the number of an agent's policy.

    Raises:
        OperationRefused: a limit is not an amount of its asset.
    """
    check_limits(Asset(agent.asset), limits)
    return PolicyRevision.objects.create(
        agent=agent, number=agent.policy_revision, **columns_of(limits), counts_payments=limits.more.needs_tally,
        created_by=by, created_at=now, is_by_one=is_by_one, template=template,
    )  # fmt: skip


def limits_of(policy: PolicyRevision | PolicyTemplate | ShadowRevision) -> Limits:
    """Return the limits of a revision, a template or a shadow."""
    return Limits(policy.max_per_payment, policy.daily_limit, policy.weekly_limit, policy.allowed_services, policy.more)


def columns_of(limits: Limits) -> dict[str, Any]:
    """Give the columns of a revision, a template or a shadow that have its limits."""
    allowed = limits.allowed_services
    return {
        "max_per_payment": limits.max_per_payment,
        "daily_limit": limits.daily_limit,
        "weekly_limit": limits.weekly_limit,
        "allowed_services": None if allowed is None else sorted(set(allowed)),
        "more_json": write_more(limits.more),
    }


def check_limits(asset: Asset, limits: Limits) -> None:
    """Check the limits of an agent with this asset.

    Raises:
        OperationRefused: says which is none.
    """
    for service_id in limits.allowed_services or ():
        if not 1 <= len(service_id) <= _MAX_SERVICE_ID_LENGTH:
            raise OperationRefused(f"A service id has 1 to {_MAX_SERVICE_ID_LENGTH} characters.")
    for limit in (limits.max_per_payment, limits.daily_limit, limits.weekly_limit):
        try:
            units = to_base_units(limit, asset)
        except AmountError as error:
            raise OperationRefused(str(error)) from error
        if units < 0:
            raise OperationRefused("A limit is zero or more.")
    _check_more(asset, limits.more)


def _check_more(asset: Asset, more: MoreLimits) -> None:
    for part, value in given(more):
        try:
            part.kind.read(part.kind.write(value), asset)
        except (ValueError, ArithmeticError) as error:
            raise OperationRefused(f"{part.label}: {error}") from error
    if (more.new_payee_payments is None) != (more.new_payee_max_per_payment is None):
        raise OperationRefused(
            "To limit the first payments to a payee, give their number and the most that each may be."
        )
    approvals = (more.approval_above, more.approval_above_day, more.approval_for_first)
    if more.approval_hours is not None and approvals == (None, None, None):
        raise OperationRefused("Say what a person has to approve, or leave out for how long they can.")
    if more.allowed_from is not None and more.allowed_until is not None and more.allowed_from >= more.allowed_until:
        raise OperationRefused("An allowance ends after it begins.")
