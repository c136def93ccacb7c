"""Where agents are in their trees by the policies in force: check what they have recorded of it, and record it anew."""

from collections.abc import Iterator

from foundation.database import TREE_LOCK, lock_name
from foundation.kernel.errors import OperationRefused
from policy.models import Agent
from policy.parents import MOST_LEVELS, find_below, lock_agents
from policy.queries import find_revision_in_force


def find_path(agent_id: str) -> list[str]:
    """Find all agents above one by the policies in force, root first: the nearest `MOST_LEVELS` at most.

    So many are too many: there is a circle, or the tree is too high.
    """
    path: list[str] = []
    parent = _find_parent(agent_id)
    while parent is not None and len(path) < MOST_LEVELS:
        path.insert(0, parent)
        parent = _find_parent(parent)
    return path


def _find_parent(agent_id: str) -> str | None:
    revision = find_revision_in_force(agent_id)
    return None if revision is None else revision.more.parent


def find_wrong_place(agent: Agent) -> Iterator[str]:
    """Yield how the ancestors of an agent differ from what the policies in force say, and what these may not say."""
    path = find_path(agent.pk)
    if len(path) == MOST_LEVELS:
        yield f"By the policies in force there are more than {MOST_LEVELS} levels of budgets, or a circle of them."
    if (agent.ancestors or []) != path:
        by_record = "/".join(agent.ancestors or ()) or "nobody"
        yield f"By its policy it is under {'/'.join(path) or 'nobody'}; by its record, under {by_record}."
    if agent.ancestors is None and _was_in_a_tree(agent):
        yield "It is recorded as an agent that was never above or below another one, and it was."
    others = Agent.objects.filter(pk__in=path).exclude(asset=agent.asset).order_by("pk")
    yield from (f"{other.pk}, above it, is in {other.asset}." for other in others)


def _was_in_a_tree(agent: Agent) -> bool:
    return agent.revisions.filter(more_json__contains='"parent":').exists() or find_below(agent.pk).exists()


def place_anew(agent_id: str) -> Agent:
    """Record the ancestors of an agent as the policies in force say, and lock it with them.

    Raises:
        OperationRefused: no such agent, or the policies say what they may not.
    """
    lock_name(TREE_LOCK)
    path = find_path(agent_id)
    agents = lock_agents([*path, agent_id])
    if len(path) == MOST_LEVELS or len(agents) <= len(path):
        raise OperationRefused(f"There is no agent {agent_id}, or its policy cannot be: see verify_log.")
    agent = agents[agent_id]
    if path or agent.ancestors is not None or _was_in_a_tree(agent):
        agent.ancestors = path
    agent.save(update_fields=["ancestors"])
    return agent
