"""Who can sign in at all: active staff."""

from typing import Any

from allauth.account.auth_backends import AuthenticationBackend


class StaffBackend(AuthenticationBackend):
    """Know active staff only, at sign-in and in every later request: who is deactivated is out at once."""

    def user_can_authenticate(self, user: Any) -> bool:
        return bool(super().user_can_authenticate(user) and user.is_staff)
