"""The pages of sign-in: allauth's views, inside the console's frame and behind our rules."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from allauth.account import views as of_account
from allauth.account.adapter import get_adapter
from allauth.mfa.base import views as of_factor
from allauth.mfa.base.internal.flows import delete_and_cleanup
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes import views as of_recovery
from allauth.mfa.totp import views as of_totp
from django.contrib import admin, messages
from django.contrib.auth import logout
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from staff.reauthentication import ask_for_proof, is_proof, reauthenticate_first
from staff.sign_in.codes import LAST_STEP
from staff.sign_in.forms import ProofForm
from staff.sign_in.proofs import forget_second_factor, note_proof, note_second_factor
from staff.sign_in.recording import record_of_person
from staff.sign_in.sessions import NOTICE, end_sessions
from staff.sign_in.single_sign_on import address_of_sign_on

View = Callable[..., Any]


def framed(view: View, title: str) -> View:
    """Give a view's template what the console's frame needs."""

    @wraps(view)
    def show(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        answer: HttpResponse = view(request, *args, **kwargs)
        if isinstance(answer, TemplateResponse):
            given = answer.context_data or {}
            answer.context_data = {**admin.site.each_context(request), **given, "title": title}
        return answer

    return show


def proven(view: View) -> View:
    """Let those in who proved lately who they are."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        answer: HttpResponse = reauthenticate_first(request) or view(request, *args, **kwargs)
        return answer

    return guarded


class Login(of_account.LoginView):
    """User name and password."""

    def get_context_data(self, **options: Any) -> Any:
        notice = self.request.session.pop(NOTICE, "")
        single_sign_on = address_of_sign_on(self.get_next_url() or "")
        return {**super().get_context_data(**options), "notice": notice, "single_sign_on": single_sign_on}


class Code(of_factor.AuthenticateView):
    """The code behind the password."""

    def form_valid(self, form: Any) -> HttpResponse:
        answer: HttpResponse = super().form_valid(form)
        if self.request.user.is_authenticated:  # a code alone is not kept for a later password
            note_second_factor(self.request, form.user.pk)
        return answer


class SetUp(of_totp.ActivateTOTPView):
    """Set an authenticator up: its secret as a picture, and its first code."""

    def form_valid(self, form: Any) -> HttpResponse:
        user = _person(self.request)
        with transaction.atomic():
            answer: HttpResponse = super().form_valid(form)
            authenticator = Authenticator.objects.get(user=user, type=Authenticator.Type.TOTP)
            authenticator.data[LAST_STEP] = form.step
            authenticator.save(update_fields=["data"])
            record_of_person("second_factor_set_up", self.request, of=user.get_username())
        note_second_factor(self.request, user.pk)
        note_proof(self.request)
        return answer


class TakeDown(of_totp.DeactivateTOTPView):
    """Take the authenticator down, to set up another."""

    def form_valid(self, form: Any) -> HttpResponse:
        user = _person(self.request)
        with transaction.atomic():
            delete_and_cleanup(self.request, self.authenticator)
            # They were opened by it: whoever replaces it may do so because somebody else has it.
            end_sessions(user, by=user.get_username(), but=self.request.session.session_key)
            record_of_person("second_factor_taken_down", self.request, of=user.get_username())
        forget_second_factor(self.request)
        return HttpResponseRedirect(reverse("mfa_activate_totp"))


class NewRecoveryCodes(of_recovery.GenerateRecoveryCodesView):
    """Make new recovery codes in place of the old ones."""

    def form_valid(self, form: Any) -> HttpResponse:
        with transaction.atomic():
            answer: HttpResponse = super().form_valid(form)
            record_of_person("recovery_codes_made", self.request, of=_person(self.request).get_username())
        return answer


class ChangePassword(of_account.PasswordChangeView):
    """Change one's own password; all other sessions end. Who signs in by single sign-on alone has none."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not _person(request).has_usable_password():
            messages.info(request, "You have no password here: an Administrator makes you a link to set one.")
            return HttpResponseRedirect(reverse("usersessions_list"))
        answer: HttpResponse = super().dispatch(request, *args, **kwargs)
        return answer

    def form_valid(self, form: Any) -> HttpResponse:
        with transaction.atomic():
            # The account is looked at anew and held: a link, or a deactivation, may have ended this session meanwhile.
            active = User.objects.filter(is_active=True, is_staff=True, password=form.user.password)
            form.user = active.select_for_update().filter(pk=form.user.pk).first()
            if form.user is None:
                logout(self.request)
                self.request.session[NOTICE] = "Your account has changed meanwhile, and your password has not."
                return HttpResponseRedirect(reverse("account_login"))
            answer: HttpResponse = super().form_valid(form)
            record_of_person("password_changed", self.request, of=form.user.get_username())
        messages.success(self.request, "Your password is changed. Your other sessions have ended.")
        return answer


def prove(request: HttpRequest) -> HttpResponse:
    """Prove who one is, and go on to another page."""
    form = ProofForm(request, request.POST or None)
    if not is_proof(request, form):
        return ask_for_proof(request, form)
    onward = request.GET.get("next", "")
    return HttpResponseRedirect(onward if get_adapter().is_safe_url(onward) else reverse("admin:index"))


def _person(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # noqa: S101 - the views let nobody else in
    return request.user
