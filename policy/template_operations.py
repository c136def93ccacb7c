"""Make and change templates, the named policies that agents follow, and let agents follow them.

An agent follows the template that its revision in force names. So whoever sets its policy otherwise, whatever release
does it, ends that; no agent is left half following. A change of a template makes one revision for each of them, all in
one transaction: where there are groups of agents, they are of one. The template is locked first, then the agents in the
order in which payments lock them.
"""

import re
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from django.db import transaction

from foundation.groups import any_group, for_agent, group_here, outside_groups, within
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from policy import changes
from policy.followers import followers_of, group_of_followers
from policy.limits import Limits, under
from policy.models import Agent, PolicyRevision, PolicyTemplate
from policy.parents import PATH, lock_agent, lock_patiently
from policy.revisions import check_limits, columns_of, limits_of, revise
from policy.shadows import end_adopted

# While a template is changed, the payments of all that follow it wait: six statements for each, a second in all.
MOST_FOLLOWERS = 100
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}", re.ASCII)


def make_template(name: str, *, asset: Asset, limits: Limits, by: str, reason: str = "") -> PolicyTemplate:
    """Make a template that no agent follows yet.

    Raises:
        OperationRefused: the name is taken or none, or a limit is not an amount.
    """
    check_new_template(name, asset, limits)
    columns = {"asset": asset.value, **columns_of(limits), "changed_by": by, "changed_at": utc_now()}
    with transaction.atomic():
        template, is_new = PolicyTemplate.objects.get_or_create(name=name, defaults=columns)
        if not is_new:
            raise OperationRefused(f"There is a template {name} already.")
        changes.record_template(None, template, (), by=by, reason=reason)
    return template


def check_new_template(name: str, asset: Asset, limits: Limits) -> None:
    """Check what a template is to be made of.

    Raises:
        OperationRefused: the name is taken or none, or a limit is not an amount.
    """
    if not _NAME.fullmatch(name):
        raise OperationRefused(
            "A template's name has up to 64 lower-case letters, digits and hyphens, and begins with no hyphen."
        )
    if PolicyTemplate.objects.filter(pk=name).exists():
        raise OperationRefused(f"There is a template {name} already.")
    _check(asset, limits)


def change_template(
    name: str,
    *,
    change: Callable[[Limits], Limits],
    by: str,
    reason: str = "",
    seen: int | None = None,
    seen_followers: Mapping[str, int] | None = None,
    is_by_one: bool = False,
) -> list[PolicyRevision]:
    """Change a template, and make the next policy revision of each agent that follows it; returns these.

    `seen` is the version that the author saw, `seen_followers` the number of each follower's revision by the agent's
    id: if there are others now, nothing changes. `is_by_one`: as of `set_policy`.

    Raises:
        OperationRefused: no such template, nothing changes, a limit is not an amount of its asset, or as above.
    """
    with within(group_of_followers(name) or any_group()), transaction.atomic():
        template = _lock_template(name, seen)
        before = changes.said_of(template)
        limits = _changed(template, change)
        agents = _lock_followers(name, seen_followers)
        _save_version(template, limits, by)  # on all servers: whoever began to follow it has committed, or waits
        if not agents and _has_followers_elsewhere(name):
            raise OperationRefused(f"Other agents follow the template {name} now. Look at it again.")
        said: dict[str, Any] = {"by": by, "reason": reason, "is_by_one": is_by_one, "template": name}
        revisions = [revise(agent, lambda old: under(old.more.parent, limits), **said) for agent in agents]
        end_adopted(*revisions, by=by, reason=reason)
        changes.record_template(before, template, [agent.pk for agent in agents], by=by, reason=reason)
    return revisions


def _changed(template: PolicyTemplate, change: Callable[[Limits], Limits]) -> Limits:
    present = limits_of(template)
    limits = change(present)
    _check(Asset(template.asset), limits)
    if columns_of(limits) == columns_of(present):
        raise OperationRefused("Nothing is changed.")
    return limits


def _check(asset: Asset, limits: Limits) -> None:
    check_limits(asset, limits)
    if limits.more.parent is not None:
        raise OperationRefused("A template names no parent: each agent that follows it keeps its own.")


def _save_version(template: PolicyTemplate, limits: Limits, by: str) -> None:
    for column, value in {**columns_of(limits), "changed_by": by, "changed_at": utc_now()}.items():
        setattr(template, column, value)
    template.version += 1
    template.save()


@for_agent
def follow_template(
    agent_id: str,
    name: str,
    *,
    by: str,
    reason: str = "",
    seen: int | None = None,
    seen_revision: int | None = None,
    is_by_one: bool = False,
) -> PolicyRevision:
    """Make an agent's next policy revision from a template, which it follows from then on.

    `seen` is the version of the template that the author saw, `seen_revision` that of the agent's policy.

    Raises:
        OperationRefused: no such agent or template, of another asset, it follows it already, too many do, or one of
            them was changed since it was seen.
    """
    with transaction.atomic():
        template = _lock_template(name, seen)
        agent = lock_agent(agent_id)
        if seen_revision is not None and agent.policy_revision != seen_revision:
            raise OperationRefused(f"The policy of {agent_id} was changed meanwhile. Look at it again.")
        check_may_follow(agent, template)
        limits = limits_of(template)
        said: dict[str, Any] = {"by": by, "reason": reason, "is_by_one": is_by_one, "template": name}
        revision = revise(agent, lambda old: under(old.more.parent, limits), **said)
        end_adopted(revision, by=by, reason=reason)
    return revision


def check_may_follow(agent: Agent, template: PolicyTemplate) -> None:
    """Check whether an agent can follow a template.

    Raises:
        OperationRefused: says why it cannot.
    """
    if agent.asset != template.asset:
        raise OperationRefused(f"{agent} is in {agent.asset}, the template {template} in {template.asset}.")
    if _has_followers_elsewhere(template.name):
        # All of them change in one transaction, which no two servers have.
        raise OperationRefused(f"{agent} is on another server than those that follow {template}: make it one there.")
    followers = followers_of(template.name)
    if followers.filter(agent=agent).exists():
        raise OperationRefused(f"{agent} follows the template {template} already.")
    if followers.count() >= MOST_FOLLOWERS:
        raise OperationRefused(f"{MOST_FOLLOWERS} agents follow the template {template}: no more can.")


def _has_followers_elsewhere(name: str) -> bool:
    own = group_here()
    with outside_groups():
        return group_of_followers(name) not in (None, own)


def _lock_template(name: str, seen: int | None) -> PolicyTemplate:
    template = PolicyTemplate.objects.select_for_update().filter(pk=name).first()
    if template is None:
        raise OperationRefused(f"There is no template {name}.")
    if seen is not None and template.version != seen:
        raise OperationRefused(f"The template {name} was changed meanwhile. Look at it again.")
    return template


def _lock_followers(name: str, seen: Mapping[str, int] | None) -> list[Agent]:
    """Lock the agents that follow a locked template: none can begin to, some may have left while they were waited for.

    Raises:
        OperationRefused: they are not those that were seen, each with its revision.
    """
    asked = list(followers_of(name).values_list("agent_id", flat=True))
    rows = Agent.objects.select_for_update(no_key=True).filter(pk__in=asked).order_by(PATH)
    agents = lock_patiently(lambda: [*rows.all()])
    agents.sort(key=attrgetter("pk"))
    remaining = set(followers_of(name).filter(agent__in=asked).values_list("agent_id", flat=True))
    agents = [agent for agent in agents if agent.pk in remaining]
    if seen is not None and dict(seen) != {agent.pk: agent.policy_revision for agent in agents}:
        raise OperationRefused(f"Other agents follow the template {name} now, or other revisions. Look at it again.")
    return agents
