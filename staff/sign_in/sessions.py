"""Sessions end 30 minutes after their person was seen, and 12 hours after the sign-in."""

import time
from collections.abc import Callable
from datetime import timedelta

from allauth.usersessions.models import UserSession
from django.contrib.auth import logout
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, UnreadablePostError
from django.middleware.csrf import CsrfViewMiddleware
from django.urls import reverse
from django.utils import timezone

from foundation.api.bodies import is_too_large
from foundation.api.client_address import client_address
from foundation.console.kept import is_kept_of, keep, read_all, write_all
from staff.audit import record
from staff.sign_in.proofs import SEEN_AT, SIGNED_IN_AT

IDLE_S = int(timedelta(minutes=30).total_seconds())
LONGEST_S = int(timedelta(hours=12).total_seconds())
# To note each request would write two rows for each.
_NOTE_EVERY_S = 60
# In the session of a stranger: what the page of sign-in says, once.
NOTICE = "notice"


def watch_sessions(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """End a session whose time is over before the request is looked at; note that its person was seen."""

    def middleware(request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith("/console") and request.user.is_authenticated:
            why = _why_over(request)
            if why:
                return _end(request, why) or get_response(request)
            if _is_by_hand(request):
                _note_seen(request)
        return get_response(request)

    return middleware


def sessions_of(user: User) -> list[UserSession]:
    """List the sessions of somebody that go on, the one seen last first."""
    found: list[UserSession] = UserSession.objects.purge_and_list(user)
    return sorted(found, key=lambda session: session.last_seen_at, reverse=True)


def end_sessions(user: User, *, by: str, reason: str = "", only: int | None = None, but: str | None = None) -> int:
    """End the sessions of somebody: all of them, `only` one by its number, or all `but` one by its key."""
    sessions = UserSession.objects.filter(user=user).exclude(session_key=but)
    ended = list(sessions if only is None else sessions.filter(pk=only))
    for session in ended:
        session.end()
        record(
            "person.session_ended",
            subject_type="person",
            subject=user.get_username(),
            by=by,
            reason=reason,
            before={"address": session.ip, "device": session.user_agent, "since": session.created_at},
        )
    return len(ended)


def _end(request: HttpRequest, why: str) -> HttpResponse | None:
    """End a session whose time is over; what its person has just sent is kept for them, and for nobody else.

    Returns a redirect to the sign-in that leads back to it. Without one, the page that was asked for leads to sign in.
    """
    person, kept = request.user.pk, read_all(request)
    is_theirs = request.method == "POST" and is_kept_of(request.path) and _is_sent_from_a_page(request)
    logout(request)
    request.session[NOTICE] = why
    write_all(request, kept)
    if not is_theirs:
        return None
    request.session[NOTICE] = f"{why} Nothing was done. Sign in, and what you had filled in is shown again."
    return redirect_to_login(keep(request, person=person), reverse("account_login"))


def _is_sent_from_a_page(request: HttpRequest) -> bool:
    """Tell whether a form can be read, and comes from a page of this console: for others, Django asks that later."""
    try:
        if is_too_large(request) or any("\x00" in value for _, values in request.POST.lists() for value in values):
            return False
    except UnreadablePostError:
        return False
    return CsrfViewMiddleware(_answer_nothing).process_view(request, _answer_nothing, (), {}) is None


def _answer_nothing(_request: HttpRequest) -> HttpResponse:
    return HttpResponse()


def _why_over(request: HttpRequest) -> str:
    now = time.time()
    if now - float(request.session.get(SIGNED_IN_AT, 0)) > LONGEST_S:
        return "You were signed out: a session lasts at most 12 hours."
    if now - float(request.session.get(SEEN_AT, 0)) > IDLE_S:
        return "You were signed out: for 30 minutes you did nothing here."
    return ""


def _is_by_hand(request: HttpRequest) -> bool:
    """Tell whether a person asked for this: what a page fetches by itself keeps no session alive."""
    return request.headers.get("Sec-Fetch-Dest") != "empty"


def _note_seen(request: HttpRequest) -> None:
    now = time.time()
    if now - request.session[SEEN_AT] < _NOTE_EVERY_S:
        return
    request.session[SEEN_AT] = now
    UserSession.objects.filter(session_key=request.session.session_key).update(
        last_seen_at=timezone.now(),
        ip=client_address(request.META) or "::",
        user_agent=request.headers.get("User-Agent", "")[:200],
    )
