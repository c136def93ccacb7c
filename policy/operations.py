"""Create and change agents, policies and the signer's switch. `key_operations` has those of API keys."""

from collections.abc import Callable
from datetime import datetime

from django.db import transaction

from foundation.database import SIGNER_LOCK, lock_name
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.money import AmountError, to_base_units
from foundation.kernel.times import utc_now
from policy import changes
from policy.agent_ids import check_agent_id
from policy.limits import Limits, lets_more_pass
from policy.models import Agent, AgentStatus, PolicyRevision, ShadowRevision, SignerSwitch
from policy.more_limits import MoreLimits, given, write_more

_MAX_SERVICE_ID_LENGTH = 128


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
    with transaction.atomic():
        agent, is_new = Agent.objects.get_or_create(id=agent_id, defaults={"asset": asset, "created_at": at})
        if not is_new:
            raise OperationRefused(f"There is an agent {agent_id} already.")
        revision = _add_revision(agent, limits, by, at, is_by_one=is_by_one)
        changes.record_agent(agent, revision, by=by, reason=reason)
    return agent


def check_new_agent(agent_id: str, asset: Asset, limits: Limits) -> None:
    """Check what an agent is to be made of.

    Raises:
        OperationRefused: the id is none for a new agent (`agent_ids`), or a limit is not an amount.
    """
    check_agent_id(agent_id)
    check_limits(asset, limits)


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
        OperationRefused: no such agent, a limit is not an amount of its asset, or a newer revision than was seen.
    """
    with transaction.atomic():
        agent = lock_agent(agent_id)
        if seen is not None and agent.policy_revision != seen:
            raise OperationRefused(f"The policy of {agent_id} was changed meanwhile. Look at it again.")
        present = PolicyRevision.objects.get(agent=agent, number=agent.policy_revision)
        agent.policy_revision += 1
        agent.save(update_fields=["policy_revision"])
        limits = change(limits_of(present))
        check_limits(Asset(agent.asset), limits)  # before they are compared: NaN is neither more nor less
        is_by_one = is_by_one if lets_more_pass(limits_of(present), limits) else present.is_by_one
        revision = _add_revision(agent, limits, by, now or utc_now(), is_by_one=is_by_one)
        changes.record_policy(present, revision, by=by, reason=reason)
    return revision


def limits_of(revision: PolicyRevision | ShadowRevision) -> Limits:
    """Return the limits of a revision, or of a shadow."""
    return Limits(
        revision.max_per_payment, revision.daily_limit, revision.weekly_limit, revision.allowed_services, revision.more
    )


def pause_agent(agent_id: str, *, by: str, reason: str = "", now: datetime | None = None) -> Agent:
    """Pause an agent: once this returns, none of its payments is approved. `now` replaces the clock."""
    return _set_status(agent_id, AgentStatus.PAUSED, by, reason, now)


def resume_agent(agent_id: str, *, by: str, reason: str = "") -> Agent:
    """Resume a paused agent: its payments are approved again.

    Raises:
        OperationRefused: no such agent, or it is archived.
    """
    return _set_status(agent_id, AgentStatus.ACTIVE, by, reason)


def switch_signer(*, is_signing: bool, by: str, reason: str = "", seen: datetime | None = None) -> SignerSwitch:
    """Put the policy signer in or out of service. It holds in every process once this returns.

    A switch that is as asked already stays as it is, with its author. `seen`: when it was switched last, as the author
    has seen it.

    Raises:
        OperationRefused: it was switched since.
    """
    with transaction.atomic():
        lock_name(SIGNER_LOCK)
        switch, _ = SignerSwitch.objects.get_or_create(id=1)
        if seen is not None and switch.changed_at != seen:
            raise OperationRefused("The signer was switched meanwhile. Look at it again.")
        if switch.is_signing != is_signing:
            switch.is_signing, switch.changed_by, switch.changed_at = is_signing, by, utc_now()
            switch.save()
            changes.record_signer(switch, was_signing=not is_signing, by=by, reason=reason)
    return switch


def lock_agent(agent_id: str) -> Agent:
    """Lock an agent's row for a change, as a payment does.

    Raises:
        OperationRefused: no such agent.
    """
    agent = Agent.objects.select_for_update(no_key=True).filter(pk=agent_id).first()
    if agent is None:
        raise OperationRefused(f"There is no agent {agent_id}.")
    return agent


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


def _add_revision(agent: Agent, limits: Limits, by: str, now: datetime, *, is_by_one: bool) -> PolicyRevision:
    check_limits(Asset(agent.asset), limits)
    return PolicyRevision.objects.create(
        agent=agent, number=agent.policy_revision, max_per_payment=limits.max_per_payment,
        daily_limit=limits.daily_limit, weekly_limit=limits.weekly_limit,
        allowed_services=None if limits.allowed_services is None else sorted(set(limits.allowed_services)),
        more_json=write_more(limits.more), counts_payments=limits.more.needs_tally,
        created_by=by, created_at=now, is_by_one=is_by_one,
    )  # fmt: skip
