"""Changes that need a second person: one asks, another confirms exactly what the first one saw.

The console proposes them. `kinds` says what commands do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction

from foundation.groups import within
from foundation.kernel.blanks import is_blank
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from staff.audit import MAX_REASON_LENGTH, confirmed_by
from staff.change_requests import decide, find_waiting, lock_waiting, note
from staff.deciders import find_objection, permitted
from staff.independence import lock_accounts
from staff.kinds import Kind, find_kind, make
from staff.models import ChangeRequest, RequestState

LIFETIME = timedelta(days=3)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that somebody proposes: what it does, to what, why, and what they saw when they proposed it."""

    kind: str
    subject_type: str
    subject: str
    arguments: Mapping[str, Any]
    shown: Sequence[tuple[str, str]]
    reason: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a proposal: done, or waiting for a second person as `request`. `message` says so."""

    message: str
    request: ChangeRequest | None = None


def propose(proposal: Proposal, *, by: User | AnonymousUser, needs_second: bool = True) -> Outcome:
    """Make a change, or ask for a second person where four eyes are on and `needs_second`.

    Raises:
        OperationRefused: the operation refuses it, there is no reason, by somebody who may not ask for it, or the same
            waits for a second person already.
    """
    kind = find_kind(proposal.kind)
    person = permitted(by.get_username(), kind.permission, kind.title)
    if is_blank(proposal.reason):
        raise OperationRefused("Give a reason.")
    if not (settings.FOUR_EYES and needs_second):
        return Outcome(make(proposal.kind, proposal.arguments, by=person, reason=proposal.reason))
    for waiting in find_waiting():
        if (waiting.kind, waiting.arguments) == (proposal.kind, dict(proposal.arguments)):
            raise OperationRefused(f"{waiting.asked_by} asked for this already: somebody else has to confirm it.")
    rehearse(proposal, by=by)
    request = _ask(proposal, person)
    until = f"{request.expires_at:%Y-%m-%d %H:%M} UTC"
    return Outcome(f"{kind.title}: a second person has to confirm this, until {until}.", request)


def _ask(proposal: Proposal, person: str) -> ChangeRequest:
    now = utc_now()
    is_over_at = find_kind(proposal.kind).expires_at(proposal.arguments)
    with transaction.atomic():
        request = ChangeRequest.objects.create(
            kind=proposal.kind,
            subject_type=proposal.subject_type,
            subject=proposal.subject,
            arguments=dict(proposal.arguments),
            shown=[[label, text] for label, text in proposal.shown],
            reason=proposal.reason,
            asked_by=person,
            asked_at=now,
            expires_at=min(now + LIFETIME, is_over_at or now + LIFETIME),
        )
        note("request.asked", request, person, proposal.reason)
    return request


def rehearse(proposal: Proposal, *, by: User | AnonymousUser) -> None:
    """Check a change, and make it and take it back if its kind is rehearsed.

    Raises:
        OperationRefused: the operation refuses it.
    """
    kind = find_kind(proposal.kind)
    kind.check(proposal.arguments)
    if kind.is_rehearsed:
        with within(kind.group(proposal.arguments)), transaction.atomic():
            kind.perform(proposal.arguments, by.get_username(), proposal.reason or "A rehearsal.")
            transaction.set_rollback(True)


def confirm(request_id: int, *, by: User | AnonymousUser) -> Outcome:
    """Make the change that somebody else asked for, in one transaction with the confirmation.

    If the operation refuses it, nothing is done, and the request goes on waiting: what hinders it may pass.

    Raises:
        OperationRefused: it does not wait any more, by its own author, by somebody who is not independent of them or
            without the permission, its author may not ask for it any more, or the operation refuses it.
    """
    with transaction.atomic():
        request, kind, _ = _lock(request_id, by)
    kind.check(request.arguments)
    with within(kind.group(request.arguments)), transaction.atomic():
        request, kind, person = _lock(request_id, by)
        decide(request, RequestState.CONFIRMED, person)
        note("request.confirmed", request, person)
        with confirmed_by(person):
            done = kind.perform(request.arguments, request.asked_by, request.reason)
    return Outcome(done, request)


def _lock(request_id: int, by: User | AnonymousUser) -> tuple[ChangeRequest, Kind, str]:
    """Lock a request that a person may confirm now, and all accounts; returns its kind and the person's name, too."""
    request = lock_waiting(request_id)
    lock_accounts()
    kind = find_kind(request.kind)
    person = permitted(by.get_username(), kind.permission, kind.title)
    if objection := find_objection(request, person):
        raise OperationRefused(objection)
    permitted(request.asked_by, kind.permission, kind.title)
    return request, kind, person


def refuse(request_id: int, *, by: User | AnonymousUser, reason: str) -> ChangeRequest:
    """Refuse what somebody asked for; its author takes it back so, whatever they may do by now.

    Raises:
        OperationRefused: it does not wait any more, without the permission, or no reason to refuse it.
    """
    with transaction.atomic():
        request = lock_waiting(request_id)
        kind, person = find_kind(request.kind), by.get_username()
        is_own = person == request.asked_by
        if not is_own:
            permitted(person, kind.permission, kind.title)
        if not (is_own or reason.strip()):
            raise OperationRefused("Give a reason.")
        if len(reason) > MAX_REASON_LENGTH:
            raise OperationRefused(f"A reason has at most {MAX_REASON_LENGTH} characters.")
        decide(request, RequestState.TAKEN_BACK if is_own else RequestState.REFUSED, person, reason)
        note("request.taken_back" if is_own else "request.refused", request, person, reason)
    return request
