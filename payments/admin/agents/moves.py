"""What it means that an agent's policy names a parent: whose limits hold from then on, and what is hardly meant."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from django.db.models import F

from foundation.kernel.errors import OperationRefused
from payments.admin.agents.levels import count_below
from policy.agent_ids import find_lookalikes
from policy.limits import Limits
from policy.models import Agent, AgentStatus, PolicyRevision
from policy.more_limits import PART_OF_FIELD
from policy.revisions import limits_of

# Of these, the smaller one of two levels binds.
_NARROWING = {
    "max_per_payment": "per payment",
    "hourly_limit": "per hour",
    "daily_limit": "per day",
    "weekly_limit": "per week",
    "monthly_limit": "per month",
    "total_limit": "in total",
    "payments_per_hour": "payments per hour",
    "payments_per_day": "payments per day",
    "payee_max_per_payment": "per payment to one payee",
    "payee_daily_limit": "per day to one payee",
    "payee_weekly_limit": "per week to one payee",
    "new_payee_max_per_payment": "per first payment",
}


def say_move(agent_id: str, old: Limits | None, new: Limits) -> list[str]:
    """Say whose limits hold from then on, if an agent gets another parent. `old` None: the agent is new."""
    before, parent = None if old is None else old.more.parent, new.more.parent
    if before == parent:
        return []
    said = [_say_who_holds(parent)]
    like = [] if parent is None else find_lookalikes(parent)
    said += [f"The parent “{parent}” can be taken for the agent “{other}”." for other in like if other != agent_id]
    if before is not None:
        said.append(f"What it has paid under {before} stays counted there, and counts nowhere else.")
    if below := count_below([agent_id])[agent_id]:
        said.append(f"It is moved with {'the agent' if below == 1 else f'all {below:,} agents'} below it.")
    return said


def _say_who_holds(parent: str | None) -> str:
    if parent is None:
        return "From then on no limits but its own hold for its payments."
    above = Agent.objects.filter(pk=parent).values_list("ancestors", flat=True).first() or []
    others = f", and those of {', '.join(reversed(above))} above it," if above else ""
    return f"From then on the limits and the status of {parent}{others} hold for its payments, too."


def doubts_of_parent(limits: Limits) -> Iterator[str]:
    """Say where somebody above an agent is paused, or has narrower limits than these, so that these bind nothing."""
    above = _find_above(limits.more.parent)
    for one in above:
        if one.agent.status == AgentStatus.PAUSED:
            yield f"{one.agent_id} is paused: no payment passes until it is resumed."
    told: set[str] = set()
    for one in above:
        try:
            wider = [name for name in _NARROWING if name not in told and _is_wider(limits, limits_of(one), name)]
        except OperationRefused as refusal:
            yield f"{one.agent_id}: {refusal}"
            continue
        if wider:
            words = ", ".join(_NARROWING[name] for name in wider)
            yield f"Wider than the limits of {one.agent_id}, so that it limits nothing: {words}."
        told.update(wider)


def _find_above(parent: str | None) -> list[PolicyRevision]:
    """Find the policies in force of a parent and all above it, the parent's first."""
    found = None if parent is None else Agent.objects.filter(pk=parent).first()
    if found is None:
        return []
    ids = [found.pk, *reversed(found.ancestors or ())]
    in_force = PolicyRevision.objects.filter(agent__in=ids, number=F("agent__policy_revision")).select_related("agent")
    return sorted(in_force, key=lambda one: ids.index(one.agent_id))


def _is_wider(below: Limits, above: Limits, name: str) -> bool:
    wide, narrow = _value(below, name), _value(above, name)
    return wide is not None and narrow is not None and wide > narrow


def _value(limits: Limits, name: str) -> Decimal | int | None:
    value: Any = getattr(limits.more if name in PART_OF_FIELD else limits, name)
    return value  # type: ignore[no-any-return]
