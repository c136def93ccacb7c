"""Budgets within budgets: an agent's policy may name a parent, an agent whose limits and status hold for it as well.

`Agent.ancestors` has all agents above one, root first, so that a payment finds and locks them in one order. It is
worked out anew whenever a policy names another parent, of the agent and of all below it. It is null of an agent that
was never part of a tree, and empty of a root. Balances are those of each agent alone.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from django.contrib.postgres.fields import ArrayField
from django.db import OperationalError, transaction
from django.db.models import F, Func, Max, QuerySet, TextField, Value
from django.db.models.functions import Coalesce
from psycopg.errors import DeadlockDetected

from foundation.database import TREE_LOCK, lock_name, write_rows
from foundation.groups import group_of, within_group_of
from foundation.kernel.errors import OperationRefused
from policy.models import Agent

T = TypeVar("T")

MOST_LEVELS = 5
_MOST_DEADLOCKS = 3
_MOVE_BELOW = """
    UPDATE policy_agent SET ancestors = %(ancestors)s::varchar[] || ancestors[%(own)s:]
     WHERE ancestors @> ARRAY[%(agent)s]::varchar[]
"""
_IDS: Any = ArrayField(TextField())
# The order in which agents are locked, by payments as well (`lock_and_read.sql`): a parent before its children.
PATH = Func(
    Coalesce(F("ancestors"), Value([], output_field=_IDS), output_field=_IDS), F("id"),
    function="array_append", output_field=_IDS,
)  # fmt: skip


def lock_agent(agent_id: str) -> Agent:
    """Lock an agent's row for a change, as a payment does.

    Raises:
        OperationRefused: no such agent.
    """
    agent = Agent.objects.select_for_update(no_key=True).filter(pk=agent_id).first()
    if agent is None:
        raise OperationRefused(f"There is no agent {agent_id}.")
    return agent


def lock_agents(agent_ids: Iterable[str]) -> dict[str, Agent]:
    """Lock several agents, as a payment does; those that do not exist are left out."""
    wanted = Agent.objects.select_for_update(no_key=True).filter(pk__in=list(agent_ids))
    return {agent.pk: agent for agent in wanted.order_by(PATH)}


def lock_with_ancestors(agent_id: str) -> Agent:
    """Lock an agent and all above it, as a payment does.

    Raises:
        OperationRefused: no such agent, or it was moved while it was waited for.
    """
    ancestors = Agent.objects.filter(pk=agent_id).values_list("ancestors", flat=True).first() or []
    agent = lock_agents([*ancestors, agent_id]).get(agent_id)
    if agent is None:
        raise OperationRefused(f"There is no agent {agent_id}.")
    if (agent.ancestors or []) != ancestors:
        raise OperationRefused(f"{agent_id} was moved meanwhile. Try again.")
    return agent


def path_of(agent_id: str) -> list[str]:
    """Give all agents above one, the root first, and that one."""
    ancestors = Agent.objects.filter(pk=agent_id).values_list("ancestors", flat=True).first()
    return [*(ancestors or ()), agent_id]


def find_below(agent_id: str) -> "QuerySet[Agent]":
    """Find all agents below one, each after its parent."""
    return Agent.objects.filter(ancestors__contains=[agent_id]).order_by(PATH)


def lock_to_move(agent_id: str, parent: str | None) -> Agent:
    """Lock an agent, all above and below it, its new parent and all above that. Nobody else moves agents meanwhile."""
    return lock_patiently(lambda: _lock_to_move(agent_id, parent))


def lock_patiently(lock: Callable[[], T]) -> T:
    """Lock several agents of a tree, again and again if need be.

    A payment that read the tree before an earlier move may lock it in another order. If PostgreSQL ends this wait
    rather than the payment's, what is locked here is let go, and locked again.
    """
    for _ in range(_MOST_DEADLOCKS):
        try:
            with transaction.atomic():
                return lock()
        except OperationalError as error:
            if not isinstance(error.__cause__, DeadlockDetected):
                raise
    return lock()


def _lock_to_move(agent_id: str, parent: str | None) -> Agent:
    lock_name(TREE_LOCK)
    ends = Agent.objects.filter(pk__in=[agent_id, *([] if parent is None else [parent])])
    above = {one for path in ends.values_list("ancestors", flat=True) for one in path or ()}
    below = find_below(agent_id).values_list("pk", flat=True)
    locked = lock_agents({agent_id, *([] if parent is None else [parent]), *above, *below})
    return locked[agent_id]


def lock_to_add(parents: Iterable[str]) -> None:
    """Lock agents under which others are to be made, and all above them. Nobody else moves agents meanwhile."""
    wanted = set(parents)
    lock_name(TREE_LOCK)
    paths = Agent.objects.filter(pk__in=wanted).values_list("ancestors", flat=True)
    lock_agents(wanted.union(*(path or () for path in paths)))


def find_place(agent_id: str, asset: str, parent: str | None, *, height: int = 1) -> list[str] | None:
    """Find the ancestors of an agent with this parent; `height`: how many levels it is with those below it.

    Locks the parent, so that it stays where it is, and as it is, until the transaction ends.

    Raises:
        OperationRefused: the agent cannot be under this parent.
    """
    if parent is None:
        return None
    check_is_together(agent_id, parent)
    lock_name(TREE_LOCK)
    above = lock_with_ancestors(parent)
    ancestors = place_under(above, agent_id, asset, height)
    if above.ancestors is None:
        Agent.objects.filter(pk=parent).update(ancestors=[])
    return ancestors


def check_is_together(agent_id: str, parent: str) -> None:
    """Check that an agent, which may be a new one, is or will be on the server of its parent.

    Raises:
        OperationRefused: it is on another one.
    """
    if group_of(agent_id, below=parent) != group_of(parent):
        raise OperationRefused(
            f"{agent_id} and {parent} are on different servers, and a tree is on one: make a new agent under {parent}."
        )


def check_place(agent_id: str, asset: str, parent: str) -> None:
    """Check whether an agent, which may be a new one, could be under this parent now. Locks nothing.

    Raises:
        OperationRefused: says why it cannot.
    """
    check_is_together(agent_id, parent)
    with within_group_of(parent):
        above = Agent.objects.filter(pk=parent).first()
        if above is None:
            raise OperationRefused(f"There is no agent {parent}.")
        agent = Agent.objects.filter(pk=agent_id).first()
        place_under(above, agent_id, asset, 1 if agent is None else _height(agent))


def place_under(above: Agent, agent_id: str, asset: str, height: int = 1) -> list[str]:
    """Return the ancestors of an agent with this parent, which may be an agent that is only to be made.

    Raises:
        OperationRefused: the agent cannot be under this parent.
    """
    ancestors = [*(above.ancestors or ()), above.pk]
    if above.archived_at is not None:
        raise OperationRefused(f"{above.pk} is archived: no agent can be under it.")
    if above.asset != asset:
        raise OperationRefused(f"{above.pk} is in {above.asset}: an agent in {asset} cannot be under it.")
    if agent_id in ancestors:
        raise OperationRefused(f"{agent_id} cannot be under {above.pk}, which is {agent_id} itself or below it.")
    if len(ancestors) + height > MOST_LEVELS:
        raise OperationRefused(f"Under {above.pk} there would be more than {MOST_LEVELS} levels of budgets.")
    return ancestors


def _height(agent: Agent) -> int:
    """Count the levels of an agent and those below it."""
    own = len(agent.ancestors or ())
    deepest = find_below(agent.pk).aggregate(longest=Max("ancestors__len"))["longest"]
    return 1 + (0 if deepest is None else deepest - own)


def move(agent: Agent, parent: str | None) -> None:
    """Put an agent, locked by `lock_to_revise`, and all below it under another parent; None: under none.

    Raises:
        OperationRefused: it cannot be under this parent.
    """
    old = len(agent.ancestors or ())
    agent.ancestors = find_place(agent.pk, agent.asset, parent, height=_height(agent)) or []
    agent.save(update_fields=["ancestors"])
    write_rows(_MOVE_BELOW, {"ancestors": agent.ancestors, "own": old + 1, "agent": agent.pk})
