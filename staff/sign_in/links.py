"""One-time links: addresses at which somebody sets the password of an account, valid once and for a day.

A whole link opens its account to whoever has it. One in two halves takes a code besides the address: whoever sees one
of them can open nothing. Links are kept nowhere: they are made of the account as it is, and a moment.
"""

import base64
from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import User
from django.contrib.auth.tokens import PasswordResetTokenGenerator, default_token_generator
from django.urls import reverse
from django.utils.crypto import constant_time_compare, salted_hmac
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

_CODE_LENGTH, _GROUP = 12, 4


@dataclass(frozen=True, slots=True)
class Halves:
    """A link in two halves: the path of its address, and the code that is asked for there."""

    path: str
    code: str


class _HalvedLinks(PasswordResetTokenGenerator):
    key_salt = "staff.sign_in.links.halved"

    def make_token_at(self, user: User, moment: datetime) -> str:
        local = moment.astimezone().replace(tzinfo=None)  # as `_now` is
        return self._make_token_with_timestamp(user, self._num_seconds(local), self.secret)


class AnyLinks:
    """What both kinds of links are checked by."""

    def check_token(self, user: User | None, token: str | None) -> bool:
        return default_token_generator.check_token(user, token) or _halved.check_token(user, token)


_halved = _HalvedLinks()


def make_whole(user: User) -> str:
    """Make a link that opens an account by itself; returns its path."""
    return _path(user, default_token_generator.make_token(user))


def make_halves(user: User, moment: datetime) -> Halves | None:
    """Make the link in halves of a moment; the same again as long as it is good, and None once it is not."""
    token = _halved.make_token_at(user, moment)
    return Halves(_path(user, token), _code_of(token)) if _halved.check_token(user, token) else None


def is_whole(user: User, token: str | None) -> bool:
    """Tell whether a link that somebody has opened takes no code: of one that is good no longer, this is not said."""
    return bool(default_token_generator.check_token(user, token))


def is_code(token: str, code: str) -> bool:
    """Tell whether a code is the other half of a link, however it is grouped."""
    given = "".join(one for one in code.upper() if one.isalnum())
    return constant_time_compare(given, _code_of(token).replace("-", ""))


def _path(user: User, token: str) -> str:
    return reverse("first_password", args=[urlsafe_base64_encode(force_bytes(user.pk)), token])


def _code_of(token: str) -> str:
    digest = salted_hmac("staff.sign_in.links.code", token, algorithm="sha256").digest()
    code = base64.b32encode(digest).decode()[:_CODE_LENGTH]
    return "-".join(code[start : start + _GROUP] for start in range(0, _CODE_LENGTH, _GROUP))
