"""Shadows: limits that are tried on an agent. They decide nothing; the log tells what they would have decided.

A shadow names no parent: the agent stays where it is.
"""

from collections.abc import Callable

from django.db import transaction

from foundation.groups import for_agent
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from policy import changes
from policy.limit_texts import are_same
from policy.limits import Limits, under
from policy.models import Agent, PolicyRevision, ShadowRevision
from policy.more_limits import write_more
from policy.queries import find_revision_in_force
from policy.revisions import check_limits, columns_of, limits_of


@for_agent
def find_shadow(agent_id: str) -> ShadowRevision | None:
    """Read an agent's shadow; None: it has none."""
    return ShadowRevision.objects.filter(agent=agent_id).first()


@for_agent
def begin_shadow(agent_id: str, *, change: Callable[[Limits], Limits], by: str, reason: str = "") -> ShadowRevision:
    """Try limits on an agent from now on, made from those in force; they replace the shadow that it has.

    Raises:
        OperationRefused: no such agent, a limit is not an amount of its asset, or they are in force already.
    """
    with transaction.atomic():
        agent = Agent.objects.filter(pk=agent_id).first()
        present = find_revision_in_force(agent_id)
        if agent is None or present is None:
            raise OperationRefused(f"There is no agent {agent_id}.")
        limits = change(limits_of(present))
        if limits.more.parent != present.more.parent:
            raise OperationRefused("Limits are tried under the parent that the agent has.")
        limits, in_force = under(None, limits), under(None, limits_of(present))
        check_limits(Asset(agent.asset), limits)
        if are_same(limits, in_force):
            raise OperationRefused("These limits are in force: there is nothing to try.")
        before = ShadowRevision.objects.select_for_update().filter(agent=agent).first()
        columns = {**columns_of(limits), "created_by": by, "created_at": utc_now()}
        shadow, _ = ShadowRevision.objects.update_or_create(agent=agent, defaults=columns)
        changes.record_shadow("shadow.begun", agent_id, before=before, after=shadow, by=by, reason=reason)
    return shadow


@for_agent
def drop_shadow(agent_id: str, *, by: str, reason: str = "") -> None:
    """Try limits no more on an agent.

    Raises:
        OperationRefused: it has no shadow.
    """
    with transaction.atomic():
        shadow = ShadowRevision.objects.select_for_update().filter(agent=agent_id).first()
        if shadow is None:
            raise OperationRefused(f"{agent_id} has no shadow.")
        _end(shadow, "shadow.dropped", by=by, reason=reason)


def end_adopted(*revisions: PolicyRevision, by: str, reason: str) -> None:
    """End each shadow whose limits are those of one of these revisions: they are in force now.

    Call it in the transaction in which they are made. They are of different agents.
    """
    of_agent = {one.agent_id: one for one in revisions}
    for shadow in ShadowRevision.objects.select_for_update().filter(agent__in=of_agent).order_by("agent"):
        revision = of_agent[shadow.agent_id]
        # One with a limit that only a later release knows is not read.
        adopted = under(None, limits_of(revision))
        if shadow.more_json == write_more(adopted.more) and are_same(limits_of(shadow), adopted):
            _end(shadow, "shadow.adopted", by=by, reason=reason)


def _end(shadow: ShadowRevision, action: str, *, by: str, reason: str) -> None:
    changes.record_shadow(action, shadow.agent_id, before=shadow, by=by, reason=reason)
    shadow.delete()
