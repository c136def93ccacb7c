"""People who sign in with a password and an authenticator, as a browser does."""

import re
import time
from typing import Any

from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, generate_totp_secret, hotp_value
from allauth.mfa.utils import decrypt
from django.contrib.auth.models import Group, User
from django.test import Client

from staff.models import AuditEntry
from staff.sign_in.codes import LAST_STEP
from tests.support.factories import new_name
from tests.support.steps import follow_step

PASSWORD = "correct horse battery staple"
STEP_S = 30


def make_user(*groups: str, authenticator: bool = False, **fields: Any) -> User:
    """Make a member of staff who has a password."""
    user: User = User(**{"username": new_name("user"), "is_staff": True, **fields})
    user.set_password(PASSWORD)
    user.save()
    user.groups.add(*Group.objects.filter(name__in=groups))
    if authenticator:
        TOTP.activate(user, generate_totp_secret())
        RecoveryCodes.activate(user)
    return user


def code_of(user: User, *, steps: int = 0) -> str:
    """Give the code that somebody's authenticator shows, now or some steps of 30 s later."""
    data = Authenticator.objects.get(user=user, type="totp").data
    return code(decrypt(data["secret"]), steps=steps)


def code(secret: str, *, steps: int = 0) -> str:
    return str(format_hotp_value(hotp_value(secret, int(time.time()) // STEP_S + steps)))


def wait_for_next_code(user: User) -> None:
    """Forget that the present code was used, as half a minute does."""
    row = Authenticator.objects.get(user=user, type="totp")
    row.data.pop(LAST_STEP, None)
    row.save()


def recovery_codes_of(user: User) -> list[str]:
    codes: list[str] = Authenticator.objects.get(user=user, type="recovery_codes").wrap().get_unused_codes()
    return codes


class Browser:
    """A browser at an address, without an account."""

    def __init__(self, address: str = "198.51.100.7", **options: Any) -> None:
        self.client = Client(SERVER_NAME="localhost", REMOTE_ADDR=address, raise_request_exception=False, **options)

    def get(self, page: str) -> Any:
        return self.client.get(page)

    def post(self, page: str, **data: Any) -> Any:
        return follow_step(self.client, self.client.post(page, data))

    def enter_password(self, user: User | str, password: str = PASSWORD, **data: str) -> Any:
        name = user if isinstance(user, str) else user.username
        return self.post("/console/login/", username=name, password=password, **data)

    def enter_code(self, code: str) -> Any:
        return self.post("/console/login/code/", code=code)

    def sign_in(self, user: User) -> "Browser":
        """Enter the password, and a code if there is an authenticator."""
        answer = self.enter_password(user)
        if answer["Location"] == "/console/login/code/":
            wait_for_next_code(user)
            answer = self.enter_code(code_of(user))
        assert answer.status_code == 302, answer.content
        assert self.is_in(), answer["Location"]
        return self

    def is_in(self) -> bool:
        """Tell whether the console shows its front page."""
        return bool(self.get("/console/").status_code == 200)

    @property
    def session(self) -> str:
        return str(self.client.cookies["sessionid"].value)


def text_of(answer: Any) -> str:
    """Give the words of a page."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", answer.content.decode()))


def find(pattern: str, answer: Any) -> str:
    """Find the part of a page that a pattern's group is."""
    found = re.search(pattern, answer.content.decode(), re.DOTALL)
    assert found, answer.content
    return found[1]


def audited(user: User) -> list[str]:
    """List what was recorded about somebody, oldest first."""
    entries = AuditEntry.objects.filter(subject_type="person", subject=user.username)
    return list(entries.order_by("id").values_list("action", flat=True))
