"""Which services may be paid now. Source: docs/contract.md, "Reading"."""

from django.db.models import F, QuerySet, Value
from django.db.models.functions import Concat

from policy.models import PolicyRevision
from services.models import Service, ServiceStatus


def payable_services(agent_id: str | None) -> "QuerySet[Service]":
    """Find the services that an agent may pay by its policy and in its asset; None: those that may be paid at all.

    An agent that does not exist may pay none.
    """
    approved = Service.objects.filter(
        status=ServiceStatus.APPROVED, approved_recipient=Concat(F("chain"), Value(":"), F("address"))
    )
    if agent_id is None:
        return approved
    in_force = PolicyRevision.objects.filter(agent=agent_id, number=F("agent__policy_revision"))
    policy = in_force.values_list("agent__asset", "allowed_services").first()
    if policy is None:
        return approved.none()
    asset, allowed = policy
    payable = approved.filter(asset=asset)
    return payable if allowed is None else payable.filter(pk__in=allowed)
