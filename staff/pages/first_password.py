"""The page that a one-time link leads to: it sets a password, once."""

from functools import cached_property
from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.auth.models import User
from django.contrib.auth.views import INTERNAL_RESET_SESSION_TOKEN, PasswordResetConfirmView
from django.db import transaction
from django.http import HttpResponse
from django.urls import reverse_lazy

from staff.sign_in.links import AnyLinks, is_code, is_whole
from staff.sign_in.recording import record_of_person
from staff.sign_in.sessions import NOTICE, end_sessions


class HalvesForm(SetPasswordForm):
    """A password, behind the other half of the link."""

    code = forms.CharField(
        label="Code",
        max_length=32,
        help_text="Another person than the one who gave you the link gives you the code.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "autofocus": True}),
    )
    field_order = ("code", "new_password1", "new_password2")

    def __init__(self, *args: Any, token: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self._token = token

    def clean_code(self) -> str:
        code: str = self.cleaned_data["code"]
        if not is_code(self._token, code):
            raise forms.ValidationError("This is not the code of this link.")
        return code


class FirstPassword(PasswordResetConfirmView):
    """Set the password of whoever the link was made for. Django takes the link out of the address at once."""

    template_name = "account/first_password.html"
    token_generator = AnyLinks()
    success_url = reverse_lazy("account_login")
    extra_context = {"totp_required": settings.TOTP_REQUIRED}

    def get_user(self, uidb64: str) -> Any:
        user = super().get_user(uidb64)
        return user if isinstance(user, User) and user.is_active and user.is_staff else None

    def get_form_class(self) -> Any:
        return HalvesForm if self._takes_code else SetPasswordForm

    def get_form_kwargs(self) -> dict[str, Any]:
        more = {"token": self._token} if self._takes_code else {}
        return {**super().get_form_kwargs(), **more}

    @cached_property
    def _takes_code(self) -> bool:
        """Tell once which form it is: links expire while they are looked at, and then nothing is opened without."""
        return not is_whole(self.user, self._token)

    @property
    def _token(self) -> str:
        return str(self.request.session.get(INTERNAL_RESET_SESSION_TOKEN, ""))

    def form_valid(self, form: Any) -> HttpResponse:
        name = form.user.get_username()
        with transaction.atomic():
            # The account is looked at anew and held: it may have been renewed since the link was looked at.
            form.user = self.user = User.objects.select_for_update().get(pk=form.user.pk)
            self.validlink = self.user.is_active and self.token_generator.check_token(self.user, self._token)
            if not self.validlink:
                return self.render_to_response(self.get_context_data())
            answer = super().form_valid(form)
            end_sessions(form.user, by=name)
            record_of_person("password_set", self.request, of=name)
        self.request.session[NOTICE] = "Your password is set. Sign in with it."
        return answer
