"""Archive agents that are not used any more, and take them back. What they did stays where it is."""

from django.db import transaction

from foundation.groups import for_agent
from foundation.kernel.errors import OperationRefused
from foundation.kernel.money import format_amount
from foundation.kernel.times import utc_now
from policy import changes
from policy.key_operations import revoke_api_key
from policy.models import Agent, AgentStatus, ApiKey
from policy.parents import PATH, find_below, lock_agent, lock_with_ancestors


@for_agent
def archive_agent(agent_id: str, *, by: str, reason: str = "") -> Agent:
    """Archive a paused agent without money or open payments, and revoke the keys that are bound to it.

    Lists leave it out, and it is not resumed unless it is restored. What comes in for it later is credited all the
    same, and lists show it again.

    Raises:
        OperationRefused: no such agent, it is not paused, has money, a payment that waits for approval or agents
            below it, or is archived already.
    """
    with transaction.atomic():
        agent = lock_agent(agent_id)
        if agent.archived_at is not None:
            raise OperationRefused(f"{agent_id} is archived already.")
        if agent.status != AgentStatus.PAUSED:
            raise OperationRefused(f"{agent_id} is active: pause it first.")
        if agent.hold_set.filter(ended_at=None).exists():
            raise OperationRefused(f"{agent_id} has payments that wait for approval: try again once they have ended.")
        if agent.balance:
            raise OperationRefused(f"{agent_id} still has {format_amount(agent.balance)} {agent.asset}.")
        if find_below(agent_id).filter(archived_at=None).exists():
            raise OperationRefused(f"There are agents under {agent_id}: move or archive them first.")
        agent.archived_at = utc_now()
        agent.save(update_fields=["archived_at"])
        changes.record_archive(agent, by=by, reason=reason)
        for key_id in ApiKey.objects.filter(agent=agent, revoked_at=None).order_by("pk").values_list("pk", flat=True):
            revoke_api_key(key_id, by=by, reason=reason)
    return agent


@for_agent
def restore_agent(agent_id: str, *, by: str, reason: str = "") -> Agent:
    """Take an agent back from the archive. It stays paused, and its keys stay revoked.

    Raises:
        OperationRefused: no such agent, it is not archived, or an agent above it is.
    """
    with transaction.atomic():
        agent = lock_with_ancestors(agent_id)
        if agent.archived_at is None:
            raise OperationRefused(f"{agent_id} is not archived.")
        above = Agent.objects.filter(pk__in=agent.ancestors or ()).exclude(archived_at=None).order_by(PATH).first()
        if above is not None:
            raise OperationRefused(f"{above.pk}, above {agent_id}, is archived: restore that first.")
        agent.archived_at = None
        agent.save(update_fields=["archived_at"])
        changes.record_archive(agent, by=by, reason=reason)
    return agent
