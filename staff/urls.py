"""The addresses of sign-in. Of allauth's pages only these are here: nobody makes an account for themselves.

Strangers may send forms to those that begin with `login/` alone: see `foundation.console.gate`.
"""

from allauth.account.views import LogoutView
from allauth.mfa.recovery_codes.views import ViewRecoveryCodesView
from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, path, re_path
from django.views.generic import RedirectView

from staff.pages import account
from staff.pages.account import framed, proven
from staff.pages.first_password import FirstPassword
from staff.pages.roles import roles
from staff.pages.sessions import own_account
from staff.sign_in.single_sign_on import begin, come_back
from staff.sign_in.throttling import one_at_a_time


def not_there(_request: HttpRequest) -> HttpResponse:
    """Answer as if there were nothing."""
    raise Http404


_own = admin.site.admin_view

urlpatterns: list[URLPattern] = [
    path("login/", framed(one_at_a_time(account.Login.as_view()), "Sign in"), name="account_login"),
    path("login/code/", framed(one_at_a_time(account.Code.as_view()), "Second factor"), name="mfa_authenticate"),
    path(
        "login/password/<uidb64>/<token>/",
        framed(FirstPassword.as_view(), "Set your password"),
        name="first_password",
    ),
    re_path(r"^login/(?P<provider_id>sso)/$", begin, name="openid_connect_login"),
    re_path(r"^login/(?P<provider_id>sso)/callback/$", come_back, name="openid_connect_callback"),
    path("logout/", LogoutView.as_view(http_method_names=["post", "options"]), name="account_logout"),
    path("account/confirm/", _own(account.prove), name="account_reauthenticate"),
    path(
        "account/password/",
        _own(framed(proven(one_at_a_time(account.ChangePassword.as_view())), "Change your password")),
        name="account_change_password",
    ),
    path(
        "account/authenticator/",
        _own(framed(proven(account.SetUp.as_view()), "Set up your authenticator")),
        name="mfa_activate_totp",
    ),
    path(
        "account/authenticator/replace/",
        _own(framed(proven(account.TakeDown.as_view()), "Replace your authenticator")),
        name="mfa_deactivate_totp",
    ),
    path(
        "account/recovery-codes/",
        _own(framed(proven(ViewRecoveryCodesView.as_view()), "Recovery codes")),
        name="mfa_view_recovery_codes",
    ),
    path(
        "account/recovery-codes/new/",
        _own(framed(proven(account.NewRecoveryCodes.as_view()), "New recovery codes")),
        name="mfa_generate_recovery_codes",
    ),
    # Addresses that Django's own site would have.
    path("password_change/", RedirectView.as_view(pattern_name="account_change_password")),
    path("password_change/done/", not_there),
    path("account/sessions/", own_account, name="usersessions_list"),
    path("roles/", roles, name="roles"),
]
