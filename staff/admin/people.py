"""The console's pages of the people who work here, in place of Django's own."""

from typing import Any

from allauth.account import admin as of_account
from allauth.mfa import admin as of_factor
from allauth.socialaccount import admin as of_provider
from allauth.usersessions import admin as of_sessions
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth import admin as of_django
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from foundation.console.columns import column_of, instant
from foundation.console.confirmation import Shown, confirm
from foundation.console.views import show_page
from foundation.kernel.errors import OperationRefused
from staff import people
from staff.admin.people_columns import PeopleColumns
from staff.admin.people_forms import STEPS, NewAccountForm, ReasonForm, RolesForm
from staff.asking import say
from staff.independence import acts_alone
from staff.links import sends_links
from staff.people_requests import propose_change, propose_link
from staff.reauthentication import reauthenticate_first
from staff.second_person import Outcome

# They would let whoever may see them change accounts, factors and sessions past the operations.
for _theirs in (of_account, of_factor, of_provider, of_sessions, of_django):
    for _model, _page in list(admin.site._registry.items()):  # noqa: SLF001 - there is no other way to ask
        if type(_page).__module__ == _theirs.__name__:
            admin.site.unregister(_model)


@admin.register(User)
class PeopleAdmin(PeopleColumns):
    list_title, add_words = "Staff", "Make an account"
    list_display = (
        "username",
        column_of("first_name", str, "name"),
        "email",
        "shown_roles",
        "shown_state",
        "shown_factor",
        instant("last_login"),
    )
    list_filter = ("is_active", "groups")
    search_fields = ("username", "first_name", "email")
    fields = (*list_display, instant("date_joined"), "shown_sessions", "shown_hands", "shown_parts")
    ordering = ("username",)
    actions = (
        "change_roles",
        "send_link",
        "make_link",
        "reset_second_factor",
        "let_in",
        "end_sessions",
        "deactivate",
        "activate",
    )

    def is_possible(self, action: str, row: Any) -> bool:
        if action == "send_link" and not sends_links():
            return False
        return action != ("activate" if row.is_active else "deactivate")

    def audit_subject(self, row: Any) -> str:
        return str(row.get_username())

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("auth.add_user")

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        if not self.has_add_permission(request):
            return super().add_view(request, form_url, extra_context)
        if (detour := reauthenticate_first(request)) is not None:
            return detour
        form = NewAccountForm(request.POST or None)
        if form.is_valid() and self._propose(request, "make", form.cleaned_data.pop("username"), form.cleaned_data):
            return HttpResponseRedirect(reverse("admin:auth_user_changelist"))
        return show_page(request, "console/new_account.html", title="Make an account", form=form)

    @admin.action(description="Change roles", permissions=["operate"])
    def change_roles(self, request: HttpRequest, queryset: QuerySet[User]) -> HttpResponse | None:
        return self._step(request, queryset, "change_roles", RolesForm)

    @admin.action(description="Reset second factor", permissions=["operate"])
    def reset_second_factor(self, request: HttpRequest, queryset: QuerySet[User]) -> HttpResponse | None:
        return self._step(request, queryset, "reset_second_factor")

    @admin.action(description="Let in again", permissions=["operate"])
    def let_in(self, request: HttpRequest, queryset: QuerySet[User]) -> HttpResponse | None:
        return self._step(request, queryset, "let_in")

    @admin.action(description="End sessions", permissions=["operate"])
    def end_sessions(self, request: HttpRequest, queryset: QuerySet[User]) -> HttpResponse | None:
        return self._step(request, queryset, "end_sessions")

    @admin.action(description="Deactivate", permissions=["operate"])
    def deactivate(self, request: HttpRequest, queryset: QuerySet[User]) -> HttpResponse | None:
        return self._step(request, queryset, "deactivate")

    @admin.action(description="Activate", permissions=["operate"])
    def activate(self, request: HttpRequest, queryset: QuerySet[User]) -> HttpResponse | None:
        return self._step(request, queryset, "activate")

    @admin.action(description="Send a one-time link", permissions=["operate"])
    def send_link(self, request: HttpRequest, queryset: QuerySet[User]) -> HttpResponse | None:
        return self._step(request, queryset, "send_link")

    @admin.action(description="Make a one-time link", permissions=["operate"])
    def make_link(self, request: HttpRequest, queryset: QuerySet[User]) -> HttpResponse | None:
        asked = self._ask(request, queryset, "make_link", ReasonForm)
        if not isinstance(asked, ReasonForm):
            return asked
        user = queryset.get()
        shown = [("Account", user.username), *self.facts_of(user).items()]
        try:
            made = propose_link(user, by=request.user, reason=asked.cleaned_data["reason"], shown=shown)
        except OperationRefused as refusal:
            self.message_user(request, str(refusal), messages.ERROR)
            return None
        if isinstance(made, Outcome):
            say(request, made)
            return None
        link = request.build_absolute_uri(made)
        return show_page(request, "console/new_link.html", title="One-time link", person=user, link=link)

    def _step(
        self, request: HttpRequest, queryset: QuerySet[User], change: str, form_class: type[ReasonForm] = ReasonForm
    ) -> HttpResponse | None:
        asked = self._ask(request, queryset, change, form_class)
        if not isinstance(asked, ReasonForm):
            return asked
        self._propose(request, change, queryset.get().username, asked.cleaned_data)
        return None

    def _ask(
        self, request: HttpRequest, queryset: QuerySet[User], change: str, form_class: type[ReasonForm]
    ) -> ReasonForm | HttpResponse | None:
        """Ask for a reason and the rest, of one account at a time; the form, once it is complete."""
        if (detour := reauthenticate_first(request)) is not None:
            return detour
        user = queryset.first()
        if user is None or queryset.count() > 1:
            self.message_user(request, "Choose one account.", messages.ERROR)
            return None
        form = form_class.of(people.roles_of(user), request.POST if "reason" in request.POST else None)
        if form.is_valid():
            return form
        is_alone = change == "make_link" and not (settings.FOUR_EYES and not acts_alone(request.user.get_username()))
        title, explanation = STEPS["make_link_alone" if is_alone else change]
        rows = [Shown(str(user.pk), user.username, self.facts_of(user))]
        return confirm(self, request, action=change, title=title, explanation=explanation, rows=rows, form=form)

    def _propose(self, request: HttpRequest, change: str, username: str, given: dict[str, Any]) -> bool:
        reason = given.pop("reason")
        shown = [("Account", username), *((name.capitalize(), _words(value)) for name, value in given.items())]
        try:
            outcome = propose_change(change, username, by=request.user, reason=reason, shown=shown, **given)
        except OperationRefused as refusal:
            self.message_user(request, str(refusal), messages.ERROR)
            return False
        say(request, outcome)
        return True


def _words(value: Any) -> str:
    return ", ".join(value) or "none" if isinstance(value, list) else str(value)
