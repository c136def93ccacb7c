"""The agents that follow a template, by their policies in force."""

from django.db.models import F, QuerySet

from foundation.groups import Group, find_in_groups, group_here
from policy.models import PolicyRevision


def followers_of(name: str) -> "QuerySet[PolicyRevision]":
    """Find the revisions in force of the agents that follow a template, in the order of the agents' ids."""
    in_force = PolicyRevision.objects.filter(template=name, number=F("agent__policy_revision"))
    return in_force.exclude(template="").order_by("agent_id")


def group_of_followers(name: str) -> Group | None:
    """Name the group that all agents are of that follow a template; None: none does."""
    return find_in_groups(lambda: group_here() if followers_of(name).exists() else None)
