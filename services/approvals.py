"""Which approvals need a second person, and why; and what such an approval shows and does.

The rule looks at what was approved, not at what was registered: to reject a registration and take it up again, to
disable a payee, or to register another recipient and then the first one again makes nobody a new payee.

A first approval takes two, whatever FOUR_EYES_ABOVE says: it has no amount. Every agent that may pay all approved
services can pay a new one, now and after each later raise of its limits, up to all that it has.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from django.conf import settings

from policy.tags import write_tags
from services.dossiers import APPROVE, Dossier, Line
from services.models import Service, ServiceStatus
from services.operations import (
    approve_checked,
    check_approval,
    disable_service,
    enable_service,
    reject_service,
    reopen_service,
)
from staff.kinds import Argument, Kind
from staff.second_person import Proposal

KIND = APPROVE
ENABLE, REJECT, DISABLE, REOPEN = "service.enable", "service.reject", "service.disable", "service.reopen"
_TAGGED = "It has tags: agents whose policies allow one of them can pay it as soon as it is approved."


def why_second_person(dossier: Dossier) -> list[str]:
    """Say why a second person has to confirm the approval of a service; nothing: one person is enough."""
    is_pending = dossier.service.status == ServiceStatus.PENDING_APPROVAL
    of_tags = [_TAGGED] if settings.FOUR_EYES and is_pending and dossier.service.tags else []
    return [*_doubts(dossier), *of_tags]


def _doubts(dossier: Dossier) -> list[str]:
    service = dossier.service
    reasons = []
    if dossier.approved:
        earlier = dossier.approved.registration
        if (service.chain, service.address) != (earlier.chain, earlier.address):
            reasons.append("It is to be paid at another address than the one that was approved last.")
        if service.asset != earlier.asset:
            reasons.append("It is to be paid in another asset than the one that was approved last.")
        if not reasons:
            return []
    elif not dossier.is_history_known:
        reasons.append("It was changed before registrations were kept: what was approved earlier is not known.")
    elif settings.FOUR_EYES:
        reasons.append("It was never approved before.")
    if dossier.lookalikes:
        reasons.append("Its address can be taken for that of another payee.")
    return reasons


def make_proposal(dossier: Dossier, registration: int, shown: list[tuple[str, str]], reason: str) -> Proposal:
    """Propose to approve the registration that was shown, as `shown`."""
    service_id = dossier.service.pk
    arguments = {"service": service_id, "registration": registration}
    return Proposal(KIND, "service", service_id, arguments, shown, reason)


def perform(arguments: Mapping[str, Any], by: str, reason: str) -> str:
    """Approve what was proposed, and checked."""
    service = approve_checked(arguments["service"], by=by, reason=reason, registration=arguments["registration"])
    return f"Approved {service}."


def check(arguments: Mapping[str, Any]) -> None:
    """Check what is proposed: whoever asks for a second person learns at once if it could not be approved."""
    check_approval(arguments["service"], registration=arguments["registration"])


def _decide(operation: Callable[..., Service], done: str) -> Callable[[Mapping[str, Any], str, str], str]:
    def decide(arguments: Mapping[str, Any], by: str, reason: str) -> str:
        seen = arguments.get("registration")
        return f"{done} {operation(arguments['service'], by=by, reason=reason, registration=seen)}."

    return decide


_PERMISSION = "services.change_service"
_SEEN = Argument("The number of the registration that was looked at; no other one is decided on.", int)
_APPROVED = {"service": Argument("The service's id."), "registration": _SEEN}
_DECIDED = {**_APPROVED, "registration": replace(_SEEN, is_needed=False)}
APPROVAL = Kind(KIND, "Approve a payee", _PERMISSION, perform, check=check, takes=_APPROVED)
KINDS = (
    APPROVAL,
    Kind(ENABLE, "Enable a payee", _PERMISSION, _decide(enable_service, "Enabled"), takes=_DECIDED),
    Kind(REJECT, "Reject a payee", _PERMISSION, _decide(reject_service, "Rejected"), takes=_DECIDED),
    Kind(DISABLE, "Disable a payee", _PERMISSION, _decide(disable_service, "Disabled"), takes=_DECIDED),
    Kind(REOPEN, "Take up again a payee", _PERMISSION, _decide(reopen_service, "Took up again"), takes=_DECIDED),
)


def facts_of(dossier: Dossier) -> list[tuple[str, str]]:
    """Tell all that the page shows of a service as pairs of a label and a text: the second person sees these."""
    service = dossier.service
    return [
        ("Payee", service.pk),
        *[(line.label, _in_words(line)) for line in dossier.lines],
        ("Registration", f"number {service.registration}, by the API key {dossier.key}"),
        *([("Tags", write_tags(service.tags))] if service.tags else []),
        ("First registered", f"{service.created_at:%Y-%m-%d %H:%M} UTC"),
        ("Approved last", dossier.approved_in_words),
        ("Payments so far", dossier.paid_in_words),
        *[("Same address", f"{other.pk} ({other.get_status_display().lower()})") for other in dossier.same_address],
        *[("Can be taken for", lookalike.sentence) for lookalike in dossier.lookalikes],
        *([("Webhook host", dossier.host_in_words)] if dossier.host_in_words else []),
        *[("Why a second person", reason) for reason in why_second_person(dossier)],
    ]


def _in_words(line: Line) -> str:
    old, new = ("".join(run.text for run in runs) for runs in (line.difference.old, line.difference.new))
    return f"{new} — approved last: {old}. {line.difference.sentence}" if line.difference.sentence else new
