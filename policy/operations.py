"""Create and change agents, policies and the signer's switch. `key_operations` has those of API keys."""

from collections.abc import Callable
from datetime import datetime

from django.db import transaction

from foundation.database import SIGNER_LOCK, lock_name
from foundation.groups import add_agent, for_agent, group_of, outside_groups, tell_groups, within
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from policy import changes
from policy.agent_ids import check_agent_id
from policy.limits import Limits
from policy.models import Agent, AgentStatus, PolicyRevision, SignerSwitch
from policy.parents import find_place, lock_agent
from policy.revisions import add_revision, check_limits, lock_to_revise, revise


def create_agent(
    agent_id: str, *, asset: Asset, limits: Limits, by: str, reason: str = "", is_by_one: bool = False,
    now: datetime | None = None,
) -> Agent:  # fmt: skip
    """Create an agent with an empty allowance and its first policy revision. `is_by_one`, `now`: as of `set_policy`.

    Raises:
        OperationRefused: the id is taken or none for a new agent, or a limit is not an amount.
    """
    check_new_agent(agent_id, asset, limits)
    at = now or utc_now()
    with within(group_of(agent_id, below=limits.more.parent)), transaction.atomic():
        ancestors = find_place(agent_id, asset, limits.more.parent)
        columns = {"asset": asset, "created_at": at, "ancestors": ancestors}
        agent, is_new = Agent.objects.get_or_create(id=agent_id, defaults=columns)
        if not is_new:
            raise OperationRefused(f"There is an agent {agent_id} already.")
        add_agent(agent_id)
        revision = add_revision(agent, limits, by, at, is_by_one=is_by_one)
        changes.record_agent(agent, revision, by=by, reason=reason)
    return agent


def check_new_agent(agent_id: str, asset: Asset, limits: Limits) -> None:
    """Check what an agent is to be made of.

    Raises:
        OperationRefused: the id is none for a new agent (`agent_ids`), or a limit is not an amount.
    """
    check_agent_id(agent_id)
    check_limits(asset, limits)


@for_agent
def set_policy(
    agent_id: str,
    *,
    change: Callable[[Limits], Limits],
    by: str,
    reason: str = "",
    seen: int | None = None,
    is_by_one: bool = False,
    now: datetime | None = None,
) -> PolicyRevision:
    """Make an agent's next policy revision from its present one. It is in force for every decision from now on.

    `seen` is the number of the revision that the author saw. If it is given and there is a newer one, nothing changes.
    `is_by_one`: one person alone makes it where more would take two (`one_person`). A revision that lets no more pass
    than the one before rests on whoever let that one pass. `now` replaces the clock.

    Raises:
        OperationRefused: no such agent, a limit is not an amount of its asset, a newer revision than was seen, or the
            agent cannot be under this parent.
    """
    with transaction.atomic():
        agent = lock_to_revise(agent_id, change)
        if seen is not None and agent.policy_revision != seen:
            raise OperationRefused(f"The policy of {agent_id} was changed meanwhile. Look at it again.")
        return revise(agent, change, by=by, reason=reason, is_by_one=is_by_one, now=now)


@for_agent
def pause_agent(agent_id: str, *, by: str, reason: str = "", now: datetime | None = None) -> Agent:
    """Pause an agent: once this returns, none of its payments is approved. `now` replaces the clock."""
    return _set_status(agent_id, AgentStatus.PAUSED, by, reason, now)


@for_agent
def resume_agent(agent_id: str, *, by: str, reason: str = "") -> Agent:
    """Resume a paused agent: its payments are approved again.

    Raises:
        OperationRefused: no such agent, or it is archived.
    """
    return _set_status(agent_id, AgentStatus.ACTIVE, by, reason)


def switch_signer(*, is_signing: bool, by: str, reason: str = "", seen: datetime | None = None) -> SignerSwitch:
    """Put the policy signer in or out of service. It holds in every process once this is committed.

    A switch that is as asked already stays as it is, with its author. `seen`: when it was switched last, as the author
    has seen it.

    Raises:
        OperationRefused: it was switched since.
    """
    with outside_groups(), transaction.atomic():
        lock_name(SIGNER_LOCK)
        switch, _ = SignerSwitch.objects.get_or_create(id=1)
        if seen is not None and switch.changed_at != seen:
            raise OperationRefused("The signer was switched meanwhile. Look at it again.")
        if switch.is_signing != is_signing:
            switch.is_signing, switch.changed_by, switch.changed_at = is_signing, by, utc_now()
            switch.save()
            changes.record_signer(switch, was_signing=not is_signing, by=by, reason=reason)
        tell_groups(SignerSwitch, switch.pk, lock=SIGNER_LOCK)
    return switch


def _set_status(agent_id: str, status: AgentStatus, by: str, reason: str, now: datetime | None = None) -> Agent:
    with transaction.atomic():
        agent = lock_agent(agent_id)
        if agent.archived_at is not None and status == AgentStatus.ACTIVE:
            raise OperationRefused(f"{agent_id} is archived: restore it first.")
        before, agent.status = agent.status, status
        if before != status:
            agent.save(update_fields=["status"])
            changes.record_status(agent, before, by=by, reason=reason, now=now)
    return agent
