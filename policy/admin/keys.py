"""The console's pages of API keys: issue, rotate and revoke them. A key is in one answer alone, once."""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.utils.html import format_html

from foundation.console.columns import instant
from foundation.console.confirmation import Shown, confirm
from foundation.console.kept import forget as forget_kept
from foundation.console.pages import ReadOnlyAdmin
from foundation.console.views import show_page
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from policy.admin.key_forms import KeyForm, ReasonForm
from policy.admin.one_view import forget, send_to_page, take
from policy.key_operations import create_api_key, rotate_api_key
from policy.key_queries import KeyState, in_state, is_unused, state_of, unused
from policy.models import ApiKey, Scope
from policy.proposals import REVOKE
from staff.kinds import make
from staff.reauthentication import reauthenticate_first

_UNUSED = "unused"


class StateFilter(admin.SimpleListFilter):
    title = "state"
    parameter_name = "state"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        return [*((state.value, state.value.capitalize()) for state in KeyState), (_UNUSED, "Unused for 90 days")]

    def queryset(self, _request: HttpRequest, queryset: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
        state = self.value()
        if state == _UNUSED:
            return queryset.filter(unused(utc_now()))
        return queryset.filter(in_state(KeyState(state), utc_now())) if state in set(KeyState) else queryset


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    """Lists its columns one by one, so that a key's digest is not shown."""

    list_display = (
        "id", "name", "state", "permits", "bound_to", "accepted_from",
        instant("created_at"), instant("expires_at"), instant("last_used_at"),
    )  # fmt: skip
    fields = (
        "id", "name", "state", "permits", "payees", "bound_to", "accepted_from", instant("created_at"),
        instant("expires_at"), instant("revoked_at"), instant("last_used_at"), "replaces", "successor",
    )  # fmt: skip
    list_filter = (StateFilter,)
    search_fields = ("id__exact", "name", "agent__id__exact")
    search_help_text = "A key's id, a part of its name, or its agent's id."
    ordering = ("-id",)
    actions = ("rotate", "revoke")

    def is_possible(self, action: str, row: Any) -> bool:
        is_in_force = state_of(row, utc_now()) in (KeyState.IN_FORCE, KeyState.EXPIRING)
        return is_in_force and not (action == "rotate" and hasattr(row, "replaced_by"))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return admin.ModelAdmin.has_add_permission(self, request)

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        if (detour := reauthenticate_first(request)) is not None:
            return detour
        form = KeyForm(request.POST or None)
        if form.is_valid():
            try:
                issued = create_api_key(**form.asked(), by=request.user.get_username())
            except OperationRefused as refusal:
                form.add_error(None, str(refusal))
            else:
                forget_kept(request)
                return _to_its_page(request, *issued)
        return show_page(request, "console/issue_key.html", title="Issue an API key", form=form)

    def get_urls(self) -> list[Any]:
        shown = self.admin_site.admin_view(self.show_new)
        return [path("new/", shown, name="policy_apikey_new"), *super().get_urls()]

    def show_new(self, request: HttpRequest) -> HttpResponse:
        """Show the key that this person has just issued, once: it is in no message and in no log."""
        taken = take(request)
        if taken is None:
            said = "A new key is shown once, for two minutes. If nobody has copied it, rotate or revoke it."
            self.message_user(request, said, messages.WARNING)
            response: HttpResponse = HttpResponseRedirect(reverse("admin:policy_apikey_changelist"))
        else:
            key = ApiKey.objects.get(pk=taken[0])
            title, facts = "New API key", _facts(key)
            response = show_page(request, "console/new_key.html", title=title, issued=key, facts=facts, key=taken[1])
        forget(response, request.path)
        return response

    @admin.action(description="Rotate … (both keys work for 24 hours)", permissions=["operate"])
    def rotate(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> HttpResponse | None:
        if (detour := reauthenticate_first(request)) is not None:
            return detour
        if len(keys) != 1:
            self.message_user(request, "Choose one key: each new one is shown by itself.", messages.ERROR)
            return None
        form = ReasonForm.read(request.POST)
        if not form.is_valid():
            why = (
                "This issues a new key that permits the same and shows it once. The present one keeps working for 24 "
                "hours, so that whoever uses it has time to change over; then it ends."
            )
            return self._ask(request, keys, form, "Rotate API key", why)
        try:
            made = rotate_api_key(keys[0].pk, by=request.user.get_username(), reason=form.cleaned_data["reason"])
        except OperationRefused as refusal:
            self.message_user(request, str(refusal), messages.ERROR)
            return None
        return _to_its_page(request, *made)

    @admin.action(description="Revoke … (at once, for good)", permissions=["operate"])
    def revoke(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> HttpResponse | None:
        if (detour := reauthenticate_first(request)) is not None:
            return detour
        form = ReasonForm.read(request.POST)
        if not form.is_valid():
            why = "From now on nobody can use this key, on no process. It cannot be taken back: issue another one."
            return self._ask(request, keys, form, "Revoke API key", why)
        by, reason = request.user.get_username(), form.cleaned_data["reason"]
        ids = [key.pk for key in keys]
        self.perform(request, ids, lambda pk: make(REVOKE, {"key": pk}, by=by, reason=reason))
        return None

    def _ask(
        self, request: HttpRequest, keys: QuerySet[ApiKey], form: ReasonForm, title: str, explanation: str
    ) -> HttpResponse:
        rows = [Shown(key.pk, str(key), _facts(key)) for key in keys]
        action = request.POST["action"]
        return confirm(self, request, action=action, title=title, explanation=explanation, rows=rows, form=form)

    @admin.display(description="state")
    def state(self, key: ApiKey) -> str:
        now = utc_now()
        state = state_of(key, now)
        colour = "active" if state is KeyState.IN_FORCE else state
        shown = format_html('<span class="badge {}">{}</span>', colour, state)
        return format_html("{} unused for 90 days", shown) if is_unused(key, now) else shown

    @admin.display(description="permits")
    def permits(self, key: ApiKey) -> str:
        return ", ".join(key.scopes)

    @admin.display(description="payees")
    def payees(self, key: ApiKey) -> str:
        return _payees_of(key)

    @admin.display(description="for")
    def bound_to(self, key: ApiKey) -> str:
        return key.agent_id or "all agents"

    @admin.display(description="accepted from")
    def accepted_from(self, key: ApiKey) -> str:
        return ", ".join(key.address_ranges or ["everywhere"])

    @admin.display(description="replaced by")
    def successor(self, key: ApiKey) -> str:
        return str(getattr(key, "replaced_by", "—"))


def _payees_of(key: ApiKey) -> str:
    if Scope.SERVICES not in key.scopes:
        return "registers none"
    return "registers any, and changes any" if key.registers_as is None else "registers any, and changes its own only"


def _facts(key: ApiKey) -> dict[str, Any]:
    last = f"{key.last_used_at:%Y-%m-%d %H:%M} UTC" if key.last_used_at else "never"
    return {
        "State": state_of(key, utc_now()),
        "Permits": ", ".join(key.scopes),
        "Payees": _payees_of(key),
        "For": key.agent_id or "all agents",
        "Accepted from": ", ".join(key.address_ranges or ["everywhere"]),
        "Last used": last,
    }


def _to_its_page(request: HttpRequest, issued: ApiKey, key: str) -> HttpResponse:
    return send_to_page(request, reverse("admin:policy_apikey_new"), issued.pk, key)
