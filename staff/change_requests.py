"""The requests for a second person: those that wait, and what becomes of them."""

from collections.abc import Iterable

from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from staff.audit import record
from staff.models import ChangeRequest, RequestState


def find_waiting() -> list[ChangeRequest]:
    """Find the requests that wait for a second person, oldest first."""
    return list(ChangeRequest.objects.filter(state=RequestState.WAITING, expires_at__gt=utc_now()).order_by("id"))


def expire() -> int:
    """End the requests whose time is over; returns how many. They are shown as expired from that moment anyway."""
    late = ChangeRequest.objects.filter(state=RequestState.WAITING, expires_at__lte=utc_now())
    return late.update(state=RequestState.EXPIRED, decided_at=utc_now())


def refuse_needless(kind: str, subjects: Iterable[str], why: str) -> int:
    """Refuse what waits about subjects that are decided already, in nobody's name; returns how many requests."""
    now = utc_now()
    waiting = ChangeRequest.objects.filter(state=RequestState.WAITING, expires_at__gt=now, kind=kind)
    return waiting.filter(subject__in=subjects).update(state=RequestState.REFUSED, decided_at=now, answer=why)


def lock_waiting(request_id: int) -> ChangeRequest:
    """Lock a request that waits.

    Raises:
        OperationRefused: there is none, or it does not wait any more.
    """
    request = ChangeRequest.objects.select_for_update().filter(pk=request_id).first()
    if request is None:
        raise OperationRefused("There is no such request.")
    state = request.state_at(utc_now())
    if state == RequestState.EXPIRED:
        raise OperationRefused("This request has expired. Ask again.")
    if state != RequestState.WAITING:
        raise OperationRefused(f"This request was {state.label.lower()} already.")
    return request


def decide(request: ChangeRequest, state: RequestState, person: str, answer: str = "") -> None:
    """Record what somebody has decided on a locked request."""
    request.state = state
    request.decided_by = person
    request.decided_at = utc_now()
    request.answer = answer
    request.save()


def note(action: str, request: ChangeRequest, by: str, reason: str = "") -> None:
    """Record in the audit what became of a request."""
    what = {"kind": request.kind, "subjectType": request.subject_type, "subject": request.subject}
    record(action, subject_type="request", subject=str(request.pk), by=by, reason=reason, after=what)
