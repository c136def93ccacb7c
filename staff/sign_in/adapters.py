"""What allauth asks of this installation: accounts of staff, and how secrets of authenticators are kept."""

import base64
import secrets
from typing import Any

import segno
from allauth.account.adapter import DefaultAccountAdapter
from allauth.mfa.adapter import DefaultMFAAdapter
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import authenticate
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from foundation.api.client_address import client_address

_NONCE_LENGTH = 12


class AccountAdapter(DefaultAccountAdapter):
    """Staff sign in with a name and a password; nobody makes an account for themselves."""

    error_messages = {
        **DefaultAccountAdapter.error_messages,
        "username_password_mismatch": "The user name or the password is wrong, or the account is not in use.",
        "enter_current_password": "This is not your present password.",
        "incorrect_code": "This code is wrong, or it was used before. Wait for the next one.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def authenticate(self, request: HttpRequest, **credentials: Any) -> Any:
        """Check a password. Unlike allauth's own, it does not tell an account that is not in use from a wrong one."""
        return authenticate(request, **credentials)

    def pre_login(self, request: HttpRequest, user: Any, **options: Any) -> HttpResponse | None:
        if not (user.is_active and user.is_staff):
            messages.error(request, str(self.error_messages["username_password_mismatch"]))
            return HttpResponseRedirect(reverse("account_login"))
        answer: HttpResponse | None = super().pre_login(request, user, **options)
        return answer

    def get_login_stages(self) -> list[str]:
        return ["staff.sign_in.stages.CodeStage"]

    def add_message(self, *_args: Any, **_kwargs: Any) -> None:
        """Say nothing by itself: the pages do."""

    def get_client_ip(self, request: HttpRequest) -> str:
        return client_address(request.META) or "::"

    def is_safe_url(self, url: str) -> bool:
        """Lead on to pages of this console alone."""
        return (
            url.startswith("/console/") and ".." not in url and url_has_allowed_host_and_scheme(url, allowed_hosts=None)
        )

    def is_ajax(self, request: HttpRequest) -> bool:
        return False


class SecondFactorAdapter(DefaultMFAAdapter):
    """The secrets of authenticators are encrypted at rest: 12 bytes of nonce and AES-256-GCM, under SECRET_KEY."""

    error_messages = {
        **DefaultMFAAdapter.error_messages,
        "incorrect_code": AccountAdapter.error_messages["incorrect_code"],
    }

    def get_totp_label(self, user: Any) -> str:
        return str(user.get_username())

    def build_totp_svg(self, url: str) -> str:
        return segno.make(url).svg_inline(scale=5, border=4, light="#fff", dark="#000", svgclass="qr", lineclass=None)

    def encrypt(self, text: str) -> str:
        nonce = secrets.token_bytes(_NONCE_LENGTH)
        sealed = nonce + AESGCM(_key(settings.SECRET_KEY)).encrypt(nonce, text.encode(), None)
        return base64.b64encode(sealed).decode()

    def decrypt(self, encrypted_text: str) -> str:
        sealed = base64.b64decode(encrypted_text)
        for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
            try:
                return AESGCM(_key(secret)).decrypt(sealed[:_NONCE_LENGTH], sealed[_NONCE_LENGTH:], None).decode()
            except InvalidTag:
                continue
        raise ImproperlyConfigured("An authenticator was set up under another SECRET_KEY: see SECRET_KEY_FALLBACKS.")


def _key(secret: str) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=b"secrets of authenticators").derive(secret.encode())
