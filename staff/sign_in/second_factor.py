"""Whoever has no second factor gets only to the page that sets one up."""

from collections.abc import Callable
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import Resolver404, resolve, reverse

from staff.sign_in.codes import has_authenticator
from staff.sign_in.proofs import has_second_factor

SET_UP = "mfa_activate_totp"
PROVE = "account_reauthenticate"
_OPEN = frozenset({SET_UP, PROVE, "account_login", "account_logout"})


def require_second_factor(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Lead those who have shown no second factor to where they show one, or set one up; nothing else is done."""

    def middleware(request: HttpRequest) -> HttpResponse:
        if not settings.TOTP_REQUIRED or not request.path_info.startswith("/console") or _is_open(request):
            return get_response(request)
        user = request.user
        if not isinstance(user, User) or has_second_factor(request):
            return get_response(request)
        if not has_authenticator(user):
            return HttpResponseRedirect(reverse(SET_UP))
        back = request.get_full_path() if request.method in ("GET", "HEAD") else reverse("admin:index")
        return HttpResponseRedirect(f"{reverse(PROVE)}?{urlencode({'next': back})}")

    return middleware


def _is_open(request: HttpRequest) -> bool:
    try:
        return resolve(request.path_info).url_name in _OPEN
    except Resolver404:
        return False
