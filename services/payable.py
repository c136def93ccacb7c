"""Which services may be paid now. Source: docs/contract.md, "Reading"."""

from collections.abc import Collection
from functools import reduce
from operator import or_

from django.conf import settings
from django.db.models import F, Q, QuerySet, Value
from django.db.models.functions import Concat

from foundation.groups import within_group_of
from policy.models import PolicyRevision
from policy.serializers import limits_to_show
from services.models import Service, ServiceStatus


def payable_services(agent_id: str | None) -> "QuerySet[Service]":
    """Find the services that an agent may pay, by its policy and those of all above it, and in its asset.

    None: those that may be paid at all.

    None of them is on a chain, or in an asset, that is not served: that would be refused until somebody changes it. An
    agent that does not exist may pay none.

    Raises:
        PolicySignerUnavailable: only a later release knows a limit of one of these policies.
    """
    approved = Service.objects.filter(
        _is_served(), status=ServiceStatus.APPROVED, approved_recipient=Concat(F("chain"), Value(":"), F("address"))
    )
    if agent_id is None:
        return approved
    with within_group_of(agent_id):
        in_force = PolicyRevision.objects.filter(number=F("agent__policy_revision"))
        policy = in_force.filter(agent=agent_id).select_related("agent").first()
        if policy is None:
            return approved.none()
        above = policy.agent.ancestors or ()
        policies = [policy, *(in_force.filter(agent__in=above) if above else ())]
    allowed = [allowed_by(one.allowed_services, limits_to_show(one).allowed_tags) for one in policies]
    return approved.filter(*allowed, asset=policy.agent.asset)


def allowed_by(services: Collection[str] | None, tags: Collection[str] | None) -> Q:
    """Make the condition that a policy allows a service, as `policy.limits.is_allowed` does."""
    named = None if services is None else Q(pk__in=services)
    if tags is None:
        return named or Q()
    tagged = Q(tags__overlap=list(tags))
    return tagged if named is None else named | tagged


def _is_served() -> Q:
    served = [Q(chain=caip2, asset__in=sorted(chain.assets)) for caip2, chain in settings.CHAINS.items()]
    return reduce(or_, served, Q(pk__in=()))
