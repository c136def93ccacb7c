"""Changes of a payee's tags: what adds one needs a second person, as an approval does.

Whatever the amounts are (FOUR_EYES_ABOVE): agents whose policies allow a tag can pay whoever gets it, now and after
each later raise of their limits. What only takes tags away is done at once.
"""

from collections.abc import Collection, Mapping
from typing import Any

from django.db.models import F

from foundation.kernel.errors import OperationRefused
from policy.limits import is_allowed
from policy.models import PolicyRevision
from policy.tags import parse_tags, write_tags
from services.models import Service
from services.operations import set_tags
from staff.kinds import Argument, Kind
from staff.second_person import Proposal

KIND = "service.tag"


def propose_tags(service: Service, tags: Collection[str]) -> Proposal:
    """Propose other tags of a service that somebody looks at, without a reason."""
    new = sorted(set(tags))
    arguments = {"service": service.pk, "tags": new, "seen": service.tags, "registration": service.registration}
    return Proposal(KIND, "service", service.pk, arguments, shown(service, new), "")


def adds_tags(arguments: Mapping[str, Any]) -> bool:
    """Tell whether a proposal adds a tag, so that a second person has to confirm it."""
    return not set(arguments["tags"]) <= set(arguments["seen"])


def shown(service: Service, tags: Collection[str]) -> list[tuple[str, str]]:
    """Tell what other tags of a service change, as pairs of a label and a text: the second person sees these."""
    added, removed = sorted(set(tags) - set(service.tags)), sorted(set(service.tags) - set(tags))
    gain, lose = find_agents(service, tags)
    return [
        ("Payee", f"{service.pk}: {service.name}"),
        ("Recipient", service.canonical_recipient),
        ("Status", service.get_status_display().lower()),
        ("Tags until now", words_of(service.tags)),
        ("Tags then", words_of(tags)),
        ("Added", words_of(added)),
        ("Taken away", words_of(removed)),
        ("Agents whose policies allow it then", ", ".join(gain) or "no others"),
        ("Agents whose policies allow it no more", ", ".join(lose) or "none"),
    ]


def words_of(tags: Collection[str]) -> str:
    """Write tags for people."""
    return write_tags(sorted(tags)) or "none"


def find_agents(service: Service, tags: Collection[str]) -> tuple[list[str], list[str]]:
    """Find the agents whose policies allow a service with other tags that they do not allow now, and the reverse.

    One whose policy only a later release knows pays nothing here, and is named with what may hold for it.
    """
    in_force = PolicyRevision.objects.filter(number=F("agent__policy_revision"), more_json__contains='"allowedTags"')
    gain, lose = list[str](), list[str]()
    for policy in in_force.filter(agent__asset=service.asset).order_by("agent"):
        try:
            allowed = policy.more.allowed_tags
        except OperationRefused:
            gain.append(f"{policy.agent_id} (its policy is of a later release)")
            continue
        was, becomes = (is_allowed(service.pk, some, policy.allowed_services, allowed) for some in (service.tags, tags))
        if was != becomes:
            (gain if becomes else lose).append(policy.agent_id)
    return gain, lose


def _perform(arguments: Mapping[str, Any], by: str, reason: str) -> str:
    service = set_tags(
        arguments["service"],
        arguments["tags"],
        by=by,
        reason=reason,
        seen=arguments.get("seen"),
        registration=arguments.get("registration"),
    )
    return f"{service} has the tags: {words_of(service.tags)}."


def _read_tags(text: str) -> list[str]:
    try:
        return list(parse_tags(text))
    except ValueError as error:
        raise OperationRefused(f"tags: {error}") from error


TAGGING = Kind(
    KIND,
    "Set the tags of a payee",
    "services.change_service",
    _perform,
    is_rehearsed=True,
    takes={
        "service": Argument("The service's id."),
        "tags": Argument("All tags that it is to have, with commas between them; nothing for none.", _read_tags),
        "seen": Argument("The tags that were looked at; no others are changed.", _read_tags, is_needed=False),
        "registration": Argument(
            "The number of the registration that was looked at; no other one is tagged.", int, is_needed=False
        ),
    },
)
