"""Changes that need a second person: one asks, another confirms exactly what the first one saw.

An app registers each kind of change with what makes it; the console proposes it. Commands need no second person: who
can run them holds the keys anyway.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction

from allowance.kernel.errors import OperationRefused
from allowance.kernel.times import utc_now
from staff.audit import confirmed_by, record
from staff.independence import are_independent
from staff.models import ChangeRequest, RequestState

LIFETIME = timedelta(days=3)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of change.

    `perform` makes it: called with the request's arguments, its author and reason; it returns what was done, in a
    sentence, or raises OperationRefused. `permission`: who may ask, and who may confirm.
    """

    name: str
    title: str
    permission: str
    perform: Callable[[Mapping[str, Any], str, str], str]


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


_kinds: dict[str, Kind] = {}


def register(kind: Kind) -> None:
    """Make a kind of change known; apps do so when they are ready."""
    _kinds[kind.name] = kind


def find_kind(name: str) -> Kind:
    """Find a kind that is registered."""
    return _kinds[name]


def propose(proposal: Proposal, *, by: User | AnonymousUser, needs_second: bool = True) -> Outcome:
    """Make a change, or ask for a second person where four eyes are on and `needs_second`.

    Raises:
        OperationRefused: the operation refuses it, there is no reason, or by somebody who may not ask for it.
    """
    kind = _kinds[proposal.kind]
    person = _permitted(by, kind)
    if not proposal.reason.strip():
        raise OperationRefused("Give a reason.")
    if not (settings.FOUR_EYES and needs_second):
        return Outcome(kind.perform(proposal.arguments, person, proposal.reason))
    now = utc_now()
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
            expires_at=now + LIFETIME,
        )
        _record("request.asked", request, person, proposal.reason)
    return Outcome(
        f"{kind.title}: a second person has to confirm this, until {request.expires_at:%Y-%m-%d %H:%M} UTC.", request
    )


def confirm(request_id: int, *, by: User | AnonymousUser) -> Outcome:
    """Make the change that somebody else asked for, in one transaction with the confirmation.

    Raises:
        OperationRefused: it does not wait any more, by its own author, by somebody who is not independent of them or
            without the permission, its author may not ask for it any more, or the operation refuses it.
    """
    with transaction.atomic():
        request = _lock_waiting(request_id)
        kind = _kinds[request.kind]
        person = _permitted(by, kind)
        if person == request.asked_by:
            raise OperationRefused("You asked for this yourself: somebody else has to confirm it.")
        if not are_independent(person, request.asked_by):
            raise OperationRefused(
                f"You and {request.asked_by} are not independent: one of you has made or changed the account of the "
                "other. Somebody else has to confirm this."
            )
        _permitted(User.objects.filter(username=request.asked_by, is_active=True).first() or AnonymousUser(), kind)
        _decide(request, RequestState.CONFIRMED, person)
        _record("request.confirmed", request, person)
        with confirmed_by(person):
            done = kind.perform(request.arguments, request.asked_by, request.reason)
    return Outcome(done, request)


def refuse(request_id: int, *, by: User | AnonymousUser, reason: str) -> ChangeRequest:
    """Refuse what somebody asked for; its author takes it back so.

    Raises:
        OperationRefused: it does not wait any more, without the permission, or no reason.
    """
    if not reason.strip():
        raise OperationRefused("Give a reason.")
    with transaction.atomic():
        request = _lock_waiting(request_id)
        person = _permitted(by, _kinds[request.kind])
        is_own = person == request.asked_by
        _decide(request, RequestState.TAKEN_BACK if is_own else RequestState.REFUSED, person, reason)
        _record("request.taken_back" if is_own else "request.refused", request, person, reason)
    return request


def find_waiting() -> list[ChangeRequest]:
    """Find the requests that wait for a second person, oldest first."""
    return list(ChangeRequest.objects.filter(state=RequestState.WAITING, expires_at__gt=utc_now()).order_by("id"))


def expire() -> int:
    """End the requests whose time is over; returns how many."""
    late = ChangeRequest.objects.filter(state=RequestState.WAITING, expires_at__lte=utc_now())
    return late.update(state=RequestState.EXPIRED, decided_at=utc_now())


def _permitted(person: User | AnonymousUser, kind: Kind) -> str:
    if not person.is_active or not person.has_perm(kind.permission):
        raise OperationRefused(f"{person.get_username() or 'Nobody'} may not do this: {kind.title}.")
    return person.get_username()


def _lock_waiting(request_id: int) -> ChangeRequest:
    request = ChangeRequest.objects.select_for_update().filter(pk=request_id).first()
    if request is None:
        raise OperationRefused("There is no such request.")
    if request.state == RequestState.WAITING and request.expires_at <= utc_now():
        raise OperationRefused("This request has expired. Ask again.")
    if request.state != RequestState.WAITING:
        raise OperationRefused(f"This request is {request.get_state_display().lower()} already.")
    return request


def _decide(request: ChangeRequest, state: RequestState, person: str, answer: str = "") -> None:
    request.state = state
    request.decided_by = person
    request.decided_at = utc_now()
    request.answer = answer
    request.save()


def _record(action: str, request: ChangeRequest, by: str, reason: str = "") -> None:
    what = {"kind": request.kind, "subjectType": request.subject_type, "subject": request.subject}
    record(action, subject_type="request", subject=str(request.pk), by=by, reason=reason, after=what)
