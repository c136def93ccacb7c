"""Read policies."""

from django.db.models import F

from foundation.groups import for_agent
from policy.models import PolicyRevision


@for_agent
def find_revision_in_force(agent_id: str) -> PolicyRevision | None:
    """Read the revision of an agent's policy that is in force; None: there is no such agent."""
    return PolicyRevision.objects.filter(agent=agent_id, number=F("agent__policy_revision")).first()
