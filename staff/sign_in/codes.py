"""Codes of authenticators (TOTP, RFC 6238) and recovery codes: each is taken once, by whichever process."""

import time

from allauth.core.internal.cryptokit import compare_user_code
from allauth.mfa import app_settings
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from allauth.mfa.utils import decrypt, encrypt
from django.contrib.auth.models import User
from django.db import transaction

# In the authenticator's row: the newest step of time whose code was taken.
LAST_STEP = "last_step"


def has_authenticator(user: User) -> bool:
    """Tell whether somebody has set up an authenticator."""
    return bool(Authenticator.objects.filter(user=user, type=Authenticator.Type.TOTP).exists())


def use_code(user: User, code: str) -> Authenticator | None:
    """Take a code of somebody's authenticator, or a recovery code of theirs; None if it is wrong or was used before."""
    with transaction.atomic():
        for authenticator in Authenticator.objects.select_for_update().filter(user=user).order_by("-type"):
            if authenticator.type == Authenticator.Type.TOTP:
                is_right = _use_step(authenticator, code)
            else:
                is_right = authenticator.wrap().validate_code(code)
            if is_right:
                return authenticator
    return None


def step_of(secret: str, code: str) -> int | None:
    """Find the step of time that a code belongs to: this one or a neighbour; None if it belongs to none of them."""
    now = int(time.time()) // app_settings.TOTP_PERIOD
    tolerance = app_settings.TOTP_TOLERANCE
    for step in range(now - tolerance, now + tolerance + 1):
        if compare_user_code(actual=code, expected=format_hotp_value(hotp_value(secret, step))):
            return step
    return None


def _use_step(authenticator: Authenticator, code: str) -> bool:
    secret = decrypt(authenticator.data["secret"])
    step = step_of(secret, code)
    if step is None or step <= authenticator.data.get(LAST_STEP, 0):
        return False
    # Encrypted anew: the key may be newer than the row.
    authenticator.data |= {LAST_STEP: step, "secret": encrypt(secret)}
    authenticator.save(update_fields=["data"])
    return True
