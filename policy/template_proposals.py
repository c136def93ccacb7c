"""Propose a template, a change of one, or that an agent follows one.

Each is one proposal, however many agents it is about. What lets more pass for one of them needs a second person, by all
that single persons have let in together (`one_person`). A template that nobody follows lets nothing pass.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction

from foundation.groups import Group, any_group, within, within_group_of
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from policy.followers import group_of_followers
from policy.limit_texts import arguments_without_parent, names_a_limit, read_limits, write_without_parent
from policy.limits import Limits, under
from policy.models import PolicyRevision, PolicyTemplate
from policy.one_person import any_takes_two, is_by_one, lock_thresholds, takes_two
from policy.revisions import limits_of
from policy.template_operations import change_template, follow_template, make_template
from staff.kinds import Argument, Kind, register
from staff.second_person import Outcome, Proposal, propose

MAKE, CHANGE, FOLLOW = "template.make", "template.change", "template.follow"
_AMOUNTS = ("max_per_payment", "daily_limit", "weekly_limit")


def register_template_kinds() -> None:
    """Make the kinds of changes of templates known."""
    may = "policy.change_agent"
    name = {"template": Argument("The template's name.")}
    version = Argument("The version of the template that was looked at; no other one counts.", int, is_needed=False)
    seen = Argument(
        "The agents that were seen to follow it, each as `REVISION ID` of its policy, with commas between them.",
        _read_followers, is_needed=False,
    )  # fmt: skip
    asset = Argument(f"The asset of the agents that follow it: {', '.join(Asset)}.", lambda text: Asset(text).value)
    revision = Argument("The number of the revision that was looked at.", int, is_needed=False)
    register(
        Kind(MAKE, "Make a template", may, _make, takes={**name, "asset": asset, **arguments_without_parent()}),
        Kind(
            CHANGE, "Change a template", may, _change, is_rehearsed=True,
            takes={**name, "version": version, "followers": seen, **arguments_without_parent()},
            group=_group_of,
        ),
        Kind(
            FOLLOW, "Let an agent follow a template", may, _follow, is_rehearsed=True,
            takes={"agent": Argument("The agent's id."), **name, "version": version, "revision": revision},
        ),
    )  # fmt: skip


def propose_new_template(
    name: str, asset: Asset, limits: Limits, *, shown: Sequence[tuple[str, str]], reason: str, by: User | AnonymousUser
) -> Outcome:
    """Make a template, which nobody follows yet, so that one person is enough.

    Raises:
        OperationRefused: as of `make_template`, no reason, or without the permission.
    """
    arguments = {"template": name, "asset": asset.value, **write_without_parent(limits)}
    return propose(Proposal(MAKE, "template", name, arguments, shown, reason), by=by, needs_second=False)


def propose_template(
    seen: PolicyTemplate,
    followers: Sequence[PolicyRevision],
    limits: Limits,
    *,
    shown: Sequence[tuple[str, str]],
    reason: str,
    by: User | AnonymousUser,
) -> Outcome:
    """Change a template that somebody has seen, with the revisions of those that follow it.

    Raises:
        OperationRefused: as of `change_template`, no reason, or without the permission.
    """
    arguments = {
        "template": seen.name, "version": seen.version, "followers": write_followers(followers),
        **write_without_parent(limits),
    }  # fmt: skip
    proposal = Proposal(CHANGE, "template", seen.name, arguments, shown, reason)
    with within(_group_of(arguments)), transaction.atomic():
        lock_thresholds()
        return propose(proposal, by=by, needs_second=takes_two_for(seen, followers, limits))


def takes_two_for(template: PolicyTemplate, followers: Sequence[PolicyRevision], limits: Limits) -> bool:
    """Tell whether other limits of a template need a second person, by what they let pass for its followers."""
    changes = {one.agent_id: (limits_of(one), under(one.more.parent, limits)) for one in followers}
    return any_takes_two(changes, Asset(template.asset))


def propose_following(
    seen: PolicyRevision,
    template: PolicyTemplate,
    *,
    shown: Sequence[tuple[str, str]],
    reason: str,
    by: User | AnonymousUser,
) -> Outcome:
    """Let an agent, whose policy somebody has seen, follow a template that they have seen.

    Raises:
        OperationRefused: as of `follow_template`, no reason, or without the permission.
    """
    agent, new = seen.agent_id, under(seen.more.parent, limits_of(template))
    arguments = {"agent": agent, "template": template.name, "version": template.version, "revision": seen.number}
    with within_group_of(agent), transaction.atomic():
        lock_thresholds()
        needs_second = takes_two(agent, Asset(template.asset), new, old=limits_of(seen))
        return propose(Proposal(FOLLOW, "policy", agent, arguments, shown, reason), by=by, needs_second=needs_second)


def write_followers(followers: Sequence[PolicyRevision]) -> list[str]:
    """Write the agents that follow a template, with the numbers of their revisions, as a proposal carries them."""
    return [f"{one.number} {one.agent_id}" for one in followers]


def _read_followers(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]


def _make(arguments: Mapping[str, Any], by: str, reason: str) -> str:
    if missing := [name for name in _AMOUNTS if name not in arguments]:
        raise OperationRefused(f"A template needs {', '.join(missing)}.")
    asset = Asset(arguments["asset"])
    limits = read_limits({"allowed_services": None, **arguments}, asset)
    template = make_template(arguments["template"], asset=asset, limits=limits, by=by, reason=reason)
    return f"Made the template {template}. No agent follows it yet."


def _change(arguments: Mapping[str, Any], by: str, reason: str) -> str:
    template = PolicyTemplate.objects.filter(pk=arguments["template"]).first()
    if template is None:
        raise OperationRefused(f"There is no template {arguments['template']}.")
    if not names_a_limit(arguments):
        raise OperationRefused("Name at least one limit, or allowed_services.")
    asset, seen = Asset(template.asset), arguments.get("followers")
    revisions = change_template(
        template.name,
        change=lambda present: read_limits(arguments, asset, present),
        by=by,
        reason=reason,
        seen=arguments.get("version"),
        seen_followers=None if seen is None else _followers(seen),
        is_by_one=is_by_one(by),
    )
    count = len(revisions)
    return f"Changed the template {template}, and the policy of {count} {'agent' if count == 1 else 'agents'}."


def _group_of(arguments: Mapping[str, Any]) -> Group:
    return group_of_followers(arguments["template"]) or any_group()


def _followers(written: Sequence[str]) -> dict[str, int]:
    pairs = [one.partition(" ") for one in written]
    if not all(number.isdecimal() for number, _, _ in pairs):
        raise OperationRefused("followers: each must be the number of a revision, a space, and the agent's id.")
    return {agent: int(number) for number, _, agent in pairs}


def _follow(arguments: Mapping[str, Any], by: str, reason: str) -> str:
    revision = follow_template(
        arguments["agent"],
        arguments["template"],
        by=by,
        reason=reason,
        seen=arguments.get("version"),
        seen_revision=arguments.get("revision"),
        is_by_one=is_by_one(by),
    )
    left = PolicyRevision.objects.get(agent=revision.agent_id, number=revision.number - 1).template
    return f"{revision.agent_id} follows the template {revision.template}: its policy is {revision} now." + (
        f" It follows the template {left} no more." if left else ""
    )
