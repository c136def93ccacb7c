"""Let only staff send forms to the console: no form is read before its sender is known."""

from collections.abc import Callable

from django.contrib import admin
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, UnreadablePostError
from django.urls import Resolver404, resolve, reverse

from foundation.api.bodies import is_too_large
from foundation.api.environ import forget_caller, recognise
from foundation.error_pages import refuse
from foundation.kernel.errors import PayloadTooLarge

MAX_LOGIN_BYTES = 4 * 1024
# The forms of sign-in, by the names of their addresses: a stranger may send these.
_OF_STRANGERS = frozenset({"account_login", "first_password"})
# The form behind the password is read of those alone who gave one: allauth notes them in their session.
_BEHIND_THE_PASSWORD, _PASSWORD_GIVEN = "mfa_authenticate", "account_login"


def guard_console(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Let staff through, and everybody to the forms of sign-in; redirect other requests with a body there.

    It must come before the middleware that looks for a CSRF token in the form.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        if request.path_info == "/console" or request.path_info.startswith("/console/"):
            try:
                return _find_refusal(request) or get_response(request)
            except PayloadTooLarge as refusal:
                return refuse(request, refusal)
        return get_response(request)

    return middleware


def _find_refusal(request: HttpRequest) -> HttpResponse | None:
    if admin.site.has_permission(request):
        recognise(request.META, f"person {request.user.pk}")
    else:
        forget_caller(request.META)
        if _is_sign_in(request):
            if is_too_large(request, MAX_LOGIN_BYTES):
                raise PayloadTooLarge(f"What is sent to log in is at most {MAX_LOGIN_BYTES} bytes.")
        elif request.method not in ("GET", "HEAD"):
            return redirect_to_login(request.get_full_path(), reverse("admin:login"))
    if is_too_large(request):
        raise PayloadTooLarge
    _refuse_nul(request)
    return None


def _is_sign_in(request: HttpRequest) -> bool:
    try:
        name = resolve(f"{request.path_info.removesuffix('/')}/").url_name
    except Resolver404:
        return False
    return name in _OF_STRANGERS or (name == _BEHIND_THE_PASSWORD and _PASSWORD_GIVEN in request.session)


def _refuse_nul(request: HttpRequest) -> None:
    """Refuse U+0000 in a query or a form: no page of the console sends it, and PostgreSQL cannot store it."""
    try:
        sent = [*request.GET.lists(), *request.POST.lists()]
    except UnreadablePostError as error:
        raise BadRequest(str(error)) from error
    if any("\x00" in value for _, values in sent for value in values):
        raise BadRequest("A query or a form holds U+0000.")
