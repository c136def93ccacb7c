"""What signing in takes beyond a password."""

from allauth.account.models import Login
from allauth.mfa.stages import AuthenticateStage
from django.contrib.auth.models import User
from django.http import HttpRequest

from staff.sign_in.codes import has_authenticator
from staff.sign_in.proofs import has_shown_second_factor


class CodeStage(AuthenticateStage):
    """Ask for a code whoever has an authenticator, unless their provider has asked for a second factor already."""

    login: Login

    def _should_handle(self, request: HttpRequest) -> bool:
        user = self.login.user
        return isinstance(user, User) and has_authenticator(user) and not has_shown_second_factor(request, user.pk)
