"""The page on which people see their own account: second factor, password, and the sessions they can end."""

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from foundation.console.views import show_page, staff_page
from staff.sign_in.codes import has_authenticator
from staff.sign_in.sessions import end_sessions, sessions_of

_OTHERS = "others"
_MOST_DIGITS = 18


@staff_page()
def own_account(request: HttpRequest) -> HttpResponse:
    """Show one's own account; a form ends one session by its number, or all others."""
    user = request.user
    assert isinstance(user, User)  # noqa: S101 - staff_page lets nobody else in
    key = request.session.session_key
    if request.method == "POST":
        count = _end(user, request.POST.get("session", ""), key)
        messages.success(request, f"{count} {'session has' if count == 1 else 'sessions have'} ended.")
        return HttpResponseRedirect(reverse("usersessions_list"))
    return show_page(
        request,
        "account/sessions.html",
        title="Your account",
        sessions=[(session, session.session_key == key) for session in sessions_of(user)],
        has_authenticator=has_authenticator(user),
        roles=", ".join(user.groups.order_by("name").values_list("name", flat=True)),
    )


def _end(user: User, which: str, key: str | None) -> int:
    if which == _OTHERS:
        return end_sessions(user, by=user.get_username(), but=key)
    if which.isascii() and which.isdecimal() and len(which) <= _MOST_DIGITS:
        return end_sessions(user, by=user.get_username(), only=int(which))
    return 0
