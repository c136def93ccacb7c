"""The forms of sign-in. Each counts what is wrong, and refuses beyond the limits."""

from typing import Any

from allauth.account import forms as of_account
from allauth.core import context
from allauth.mfa.base import forms as of_factor
from allauth.mfa.totp import forms as of_totp
from django import forms
from django.contrib.auth.models import User
from django.http import HttpRequest

from staff.sign_in.adapters import AccountAdapter
from staff.sign_in.codes import has_authenticator, step_of, use_code
from staff.sign_in.proofs import note_second_factor
from staff.sign_in.throttling import CODE, PASSWORD, may_try, note_failure

_TRY_LATER = "There were too many attempts."
_WRONG_CODE = AccountAdapter.error_messages["incorrect_code"]


class LoginForm(of_account.LoginForm):
    """User name and password, under the names that browsers know from Django's own form."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["login"].label = "User name"
        self.fields["password"].help_text = ""
        for field in self.fields.values():
            field.widget.attrs.pop("placeholder", None)

    def add_prefix(self, field_name: str) -> str:
        return "username" if field_name == "login" else field_name


class CodeForm(of_factor.AuthenticateForm):
    """The code behind the password: of the authenticator, or a recovery code."""

    code = forms.CharField(
        label="Code",
        max_length=32,
        help_text="The six digits that your authenticator shows, or one of your recovery codes.",
        widget=forms.TextInput(attrs={"autocomplete": "one-time-code", "autofocus": True}),
    )

    def clean_code(self) -> str:
        code: str = self.cleaned_data["code"]
        self.authenticator = _use_code(context.request, self.user, code)
        return code


class FirstCodeForm(of_totp.ActivateTOTPForm):
    """The first code of an authenticator that is being set up. It cannot be used again to sign in."""

    code = forms.CharField(
        label="Code",
        max_length=32,
        widget=forms.TextInput(attrs={"autocomplete": "one-time-code", "inputmode": "numeric"}),
    )

    def clean_code(self) -> str:
        code: str = self.cleaned_data["code"]
        step = step_of(self.secret, code)
        if step is None:
            raise forms.ValidationError(_WRONG_CODE)
        self.step = step
        return code


class ChangePasswordForm(of_account.ChangePasswordForm):
    """A new password, behind the present one."""

    def clean_oldpassword(self) -> str:
        password: str = self.cleaned_data["oldpassword"]
        _check_password(context.request, self.user, password)
        return password


class ProofForm(forms.Form):
    """Who you are, once more: a code of whoever has an authenticator, the password of anybody else."""

    proof = forms.CharField(max_length=128)

    def __init__(self, request: HttpRequest, data: Any = None) -> None:
        super().__init__(data)
        self._request = request
        user = request.user
        assert isinstance(user, User)  # noqa: S101 - strangers do not come here
        self._user = user
        self._is_code = has_authenticator(user)
        # Who comes by single sign-on may have neither, and confirms there.
        self.can_be_filled = self._is_code or user.has_usable_password()
        field = self.fields["proof"]
        if self._is_code:
            field.label = "Code"
            field.help_text = "The six digits that your authenticator shows, or one of your recovery codes."
            field.widget = forms.TextInput(attrs={"autocomplete": "one-time-code", "autofocus": True})
        else:
            field.label = "Password"
            field.widget = forms.PasswordInput(attrs={"autocomplete": "current-password", "autofocus": True})

    def clean_proof(self) -> str:
        proof: str = self.cleaned_data["proof"]
        if self._is_code:
            _use_code(self._request, self._user, proof)
            note_second_factor(self._request, self._user.pk)
        else:
            _check_password(self._request, self._user, proof)
        return proof


def _use_code(request: HttpRequest, user: User, code: str) -> Any:
    if not may_try(request, user, CODE):
        raise forms.ValidationError(_TRY_LATER)
    authenticator = use_code(user, code)
    if authenticator is None:
        note_failure(request, user, CODE)
        raise forms.ValidationError(_WRONG_CODE)
    authenticator.user = user
    return authenticator


def _check_password(request: HttpRequest, user: User, password: str) -> None:
    if not may_try(request, user, PASSWORD):
        raise forms.ValidationError(_TRY_LATER)
    if not user.check_password(password):
        note_failure(request, user, PASSWORD)
        raise forms.ValidationError(AccountAdapter.error_messages["enter_current_password"])
