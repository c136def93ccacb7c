"""The page that a one-time link leads to: it sets a password, once."""

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.views import PasswordResetConfirmView
from django.db import transaction
from django.http import HttpResponse
from django.urls import reverse_lazy

from staff.sign_in.recording import record_of_person
from staff.sign_in.sessions import NOTICE, end_sessions


class FirstPassword(PasswordResetConfirmView):
    """Set the password of whoever the link was made for. Django takes the link out of the address at once."""

    template_name = "account/first_password.html"
    success_url = reverse_lazy("account_login")
    extra_context = {"totp_required": settings.TOTP_REQUIRED}

    def get_user(self, uidb64: str) -> Any:
        user = super().get_user(uidb64)
        return user if isinstance(user, User) and user.is_active and user.is_staff else None

    def form_valid(self, form: Any) -> HttpResponse:
        name = form.user.get_username()
        with transaction.atomic():
            answer = super().form_valid(form)
            end_sessions(form.user, by=name)
            record_of_person("password_set", self.request, of=name)
        self.request.session[NOTICE] = "Your password is set. Sign in with it."
        return answer
