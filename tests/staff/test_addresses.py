"""Of allauth's many pages only those are there that are needed; the others answer as if there were nothing."""

import pytest
from allauth import urls as of_allauth
from django.urls import URLResolver, get_resolver

from tests.support.sign_in import Browser, make_user

# Every address of allauth that is there, by its name, with what leads to it.
FOR_STRANGERS = {
    "account_login",
    "mfa_authenticate",
    "openid_connect_login",
    "openid_connect_callback",
    "account_logout",
}
THERE = {
    "account_login": "login/",
    "account_logout": "logout/",
    "account_reauthenticate": "account/confirm/",
    "account_change_password": "account/password/",
    "mfa_authenticate": "login/code/",
    "mfa_activate_totp": "account/authenticator/",
    "mfa_deactivate_totp": "account/authenticator/replace/",
    "mfa_view_recovery_codes": "account/recovery-codes/",
    "mfa_generate_recovery_codes": "account/recovery-codes/new/",
    "openid_connect_login": "login/sso/",
    "openid_connect_callback": "login/sso/callback/",
    "usersessions_list": "account/sessions/",
}
TRIED = {
    "account_inactive": "inactive/", "account_signup": "signup/", "account_email": "email/",
    "account_email_verification_sent": "confirm-email/", "account_confirm_email": "confirm-email/abc/",
    "account_set_password": "password/set/", "account_reset_password": "password/reset/",
    "account_reset_password_done": "password/reset/done/", "account_reset_password_from_key": "password/reset/key/1-x/",
    "account_reset_password_from_key_done": "password/reset/key/done/",
    "account_confirm_login_code": "login/code/confirm/", "account_request_login_code": "login/code/",
    "mfa_index": "2fa/", "mfa_reauthenticate": "2fa/reauthenticate/",
    "mfa_download_recovery_codes": "2fa/recovery-codes/download/",
    "socialaccount_login_cancelled": "3rdparty/login/cancelled/", "socialaccount_login_error": "3rdparty/login/error/",
    "socialaccount_signup": "3rdparty/signup/", "socialaccount_connections": "3rdparty/",
}  # fmt: skip


def names(patterns):
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from names(pattern.url_patterns)
        elif pattern.name:
            yield pattern.name


def test_every_page_of_allauth_is_either_there_or_not_needed():
    theirs = set(names(of_allauth.urlpatterns))
    ours = set(names(get_resolver().url_patterns))

    assert theirs & ours == THERE.keys() & theirs
    assert theirs - ours == {name for name in theirs if name not in THERE}
    assert theirs - THERE.keys() <= TRIED.keys()


@pytest.mark.parametrize("prefix", ["/console/", "/console/account/", "/console/accounts/", "/accounts/", "/"])
def test_what_is_not_needed_is_not_there(db, prefix):
    browser = Browser().sign_in(make_user("Finance", is_superuser=True))

    for name, path in TRIED.items():
        if f"{prefix}{path}" != "/console/login/code/":
            answers = {
                browser.get(prefix + path).status_code,
                browser.post(prefix + path, email="a@b.example").status_code,
            }
            assert answers == {404}, (name, prefix)


def test_a_stranger_is_led_to_sign_in_from_all_of_them(db):
    for path in {*TRIED.values()} - {"login/code/"}:
        for page in (f"/console/{path}", f"/console/account/{path}"):
            answers = [Browser().get(page), Browser().post(page, email="a@b.example", password1="x", password2="x")]
            assert {answer["Location"] for answer in answers} == {f"/console/login/?next={page}"}


@pytest.mark.parametrize("name", sorted(THERE.keys() - FOR_STRANGERS))
def test_of_the_pages_of_an_account_a_stranger_sees_none(db, name):
    page = f"/console/{THERE[name]}"

    assert {Browser().get(page)["Location"], Browser().post(page)["Location"]} == {f"/console/login/?next={page}"}
