"""What signing in takes beyond a password."""

from typing import Any

from allauth.account.models import Login
from allauth.mfa.stages import AuthenticateStage
from django.contrib.auth.models import User
from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare

from staff.models import AuditEntry
from staff.sign_in.codes import has_authenticator
from staff.sign_in.proofs import has_shown_second_factor
from staff.sign_in.sessions import NOTICE

# In the state of a login that waits for its code: what the account was like when its password was right.
_ACCOUNT = "account"
# The audit's names of what ends sessions. What changes the password does, too, and is seen by that.
_ENDS_SESSIONS = (
    "person.session_ended",
    "person.deactivated",
    "person.second_factor_reset",
    "person.second_factor_taken_down",
)


class CodeStage(AuthenticateStage):
    """Ask for a code whoever has an authenticator, unless their provider has asked for a second factor already.

    A login that waits for its code is no session yet, and nothing lists it: it ends with the sessions all the same, as
    it comes to nothing if anything has ended those since the password was right.
    """

    login: Login

    def handle(self) -> Any:
        if isinstance(self.login.user, User):
            self.state[_ACCOUNT] = _describe(self.login.user)
        return super().handle()

    def exit(self) -> HttpResponse:
        """Let them in: whatever page has asked for the code, it ends here."""
        if self._is_account_the_same():
            answer: HttpResponse = super().exit()
            return answer
        answer = self.abort()
        self.request.session[NOTICE] = "Your account has changed since you entered your password. Sign in again."
        return answer

    def _should_handle(self, request: HttpRequest) -> bool:
        user = self.login.user
        return isinstance(user, User) and has_authenticator(user) and not has_shown_second_factor(request, user.pk)

    def _is_account_the_same(self) -> bool:
        """Hold the account, that nothing ends its sessions before this one is among them, and look at it anew."""
        active = User.objects.filter(is_active=True, is_staff=True)
        user = active.select_for_update().filter(pk=self.login.user.pk).first() if self.login.user else None
        return user is not None and constant_time_compare(self.state.get(_ACCOUNT, ""), _describe(user))


def _describe(user: User) -> str:
    entries = AuditEntry.objects.filter(subject_type="person", subject=user.get_username(), action__in=_ENDS_SESSIONS)
    return f"{user.get_session_auth_hash()} {entries.aggregate(newest=Max('id'))['newest']}"
