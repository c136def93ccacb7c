"""Actions of finance staff on webhook endpoints in the console. The audit keeps each."""

from datetime import datetime
from functools import partial
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from foundation.console.confirmation import Shown, confirm
from foundation.console.kept import find_kept
from foundation.console.pages import ReadOnlyAdmin
from foundation.groups import within
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import format_instant
from services.admin.endpoint_forms import ConfirmationForm, ReplayForm
from services.admin.webhook_columns import rotation
from services.models import WebhookEndpoint
from services.webhooks.endpoints import enable_endpoint, group_of_endpoint
from services.webhooks.operations import (
    count_since,
    replay_since,
    reveal_secrets,
    rotate_secret,
    send_test_event,
)
from services.webhooks.queries import state_of
from staff.reauthentication import reauthenticate_first


class EndpointActions(ReadOnlyAdmin):
    """Actions on webhook endpoints."""

    fieldsets: ClassVar[Any] = None  # as in ReadOnlyAdmin
    actions = ("send_test", "replay", "enable", "show_secret", "rotate")

    @admin.action(description="Send test event", permissions=["operate"])
    def send_test(self, request: HttpRequest, endpoints: QuerySet[WebhookEndpoint]) -> None:
        def send(pk: str) -> WebhookEndpoint:
            send_test_event(pk, by=request.user.get_username())
            return _find(pk)

        self.perform(request, _ids(endpoints), send, "Sent a test event to")

    @admin.action(description="Replay since … (asks for a moment)", permissions=["operate"])
    def replay(self, request: HttpRequest, endpoints: QuerySet[WebhookEndpoint]) -> HttpResponse | None:
        kept = find_kept(request)
        form = ReplayForm.read(kept.sent if kept else request.POST)
        if kept or not form.is_answered:
            return self._count(request, endpoints, form)
        since = form.cleaned_data["since"]

        def send(pk: str) -> WebhookEndpoint:
            replay_since(pk, since, by=request.user.get_username())
            return _find(pk)

        self.perform(request, _ids(endpoints), send, f"Replayed events made since {format_instant(since)} to")
        return None

    @admin.action(description="Enable", permissions=["operate"])
    def enable(self, request: HttpRequest, endpoints: QuerySet[WebhookEndpoint]) -> None:
        self.perform(request, _ids(endpoints), partial(enable_endpoint, by=request.user.get_username()), "Enabled")

    @admin.action(description="Show signing secret … (is recorded)", permissions=["operate"])
    def show_secret(self, request: HttpRequest, endpoints: QuerySet[WebhookEndpoint]) -> HttpResponse | None:
        chosen = _ids(endpoints)
        if len(chosen) != 1:
            self.message_user(request, "Choose one endpoint: each shows its own secret.", messages.ERROR)
            return None
        if (detour := reauthenticate_first(request)) is not None:
            return detour
        form = ConfirmationForm(request.POST)
        if form.is_valid():
            return self._reveal(request, chosen[0])
        why = (
            "Anyone with this secret can sign webhooks that its receiver takes for ours: hand it to the payee, or the "
            "agent's owner, alone. "
            "That you looked at it is recorded in the audit, with your name and the time."
        )
        return self._ask(request, endpoints, form, "Show signing secret", why)

    @admin.action(description="Rotate signing secret … (both sign for 24 hours)", permissions=["operate"])
    def rotate(self, request: HttpRequest, endpoints: QuerySet[WebhookEndpoint]) -> HttpResponse | None:
        if (detour := reauthenticate_first(request)) is not None:
            return detour
        form = ConfirmationForm(request.POST)
        if form.is_valid():
            rotate = partial(rotate_secret, by=request.user.get_username())
            self.perform(request, _ids(endpoints), rotate, "Rotated the signing secret of")
            return None
        why = (
            "This makes a new secret. For 24 hours each delivery is signed with both, the new one and the present one, "
            "so the receiver has that long to take over the new one; after that the present one signs nothing any more."
        )
        return self._ask(request, endpoints, form, "Rotate signing secret", why)

    def _ask(
        self,
        request: HttpRequest,
        endpoints: QuerySet[WebhookEndpoint],
        form: forms.Form,
        title: str,
        explanation: str,
        **more: dict[str, Any],
    ) -> HttpResponse:
        """Show the endpoints, with `more` facts of each by its id, and ask for confirmation."""
        rows = [
            Shown(one.pk, one.pk, _facts(one) | more.get("facts", {}).get(one.pk, {}))
            for one in map(_find, _ids(endpoints))
        ]
        action = request.POST["action"]
        return confirm(self, request, action=action, title=title, explanation=explanation, rows=rows, form=form)

    def _count(self, request: HttpRequest, endpoints: QuerySet[WebhookEndpoint], form: ReplayForm) -> HttpResponse:
        """Say how many events a replay would send, and ask; if the moment is changed, ask again."""
        if form.is_valid():
            form = ReplayForm.about(form.cleaned_data["since"])
        facts = {pk: _number(pk, form.moment) for pk in _ids(endpoints)} if form.moment else {}
        why = (
            "Events keep their ids, so the receiver can tell what it had before. If you change the moment, its events "
            "are counted before anything is sent."
        )
        return self._ask(request, endpoints, form, "Replay", why, facts=facts)

    def _reveal(self, request: HttpRequest, pk: str) -> HttpResponse | None:
        """Show the secrets in this answer alone: they are in no message, which a cookie may carry, and in no log."""
        try:
            with within(group_of_endpoint(pk)), transaction.atomic():  # nothing is shown that was not recorded
                secrets = reveal_secrets(pk, by=request.user.get_username())
                endpoint = _find(pk)  # with its present URL: it may have moved since it was chosen
        except OperationRefused as refusal:
            self.message_user(request, str(refusal), messages.ERROR)
            return None
        context = {
            **self.admin_site.each_context(request),
            "title": "Signing secret",
            "opts": self.opts,
            "endpoint": endpoint,
            "secrets": secrets.items(),
            "rotation": rotation(endpoint),
        }
        template = "admin/services/webhookendpoint/secret.html"
        return TemplateResponse(request, template, context, headers={"Cache-Control": "no-store"})


def _ids(endpoints: QuerySet[WebhookEndpoint]) -> list[str]:
    # A payee's endpoint is in each group. Its numbers, which the list shows, are not read: they are of a group.
    return list(dict.fromkeys(endpoints.values_list("pk", flat=True)))


def _find(pk: str) -> WebhookEndpoint:
    with within(group_of_endpoint(pk)):
        return WebhookEndpoint.objects.select_related("service").get(pk=pk)


def _facts(endpoint: WebhookEndpoint) -> dict[str, Any]:
    return {"URL": endpoint.its_url or "none", "State": state_of(endpoint)}


def _number(pk: str, since: datetime) -> dict[str, Any]:
    return {f"Events since {format_instant(since)}": count_since(pk, since)}
