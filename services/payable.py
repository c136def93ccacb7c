"""Which services may be paid now. Source: docs/contract.md, "Reading"."""

from functools import reduce
from operator import or_

from django.conf import settings
from django.db.models import F, Q, QuerySet, Value
from django.db.models.functions import Concat

from policy.models import PolicyRevision
from services.models import Service, ServiceStatus


def payable_services(agent_id: str | None) -> "QuerySet[Service]":
    """Find the services that an agent may pay by its policy and in its asset; None: those that may be paid at all.

    None of them is on a chain, or in an asset, that is not served: that would be refused until somebody changes it. An
    agent that does not exist may pay none.
    """
    approved = Service.objects.filter(
        _is_served(), status=ServiceStatus.APPROVED, approved_recipient=Concat(F("chain"), Value(":"), F("address"))
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


def _is_served() -> Q:
    served = [Q(chain=caip2, asset__in=sorted(chain.assets)) for caip2, chain in settings.CHAINS.items()]
    return reduce(or_, served, Q(pk__in=()))
