"""The console's action that sets where an agent's owner is told of payments that a person has to approve."""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from foundation.kernel.errors import OperationRefused
from policy.models import Agent
from services.models import WebhookEndpoint, endpoint_of_agent
from services.owner_webhooks import SET_WEBHOOK, read_url
from staff.asking import Step, ask
from staff.lists import ListedAdmin
from staff.second_person import Proposal

_WHY = (
    "Signed webhooks go there from now on: approval.requested, approval.approved, approval.declined and "
    "approval.expired. They let nothing be paid. The page of the endpoint shows its signing secret: hand that to the "
    "owner alone. What was not delivered at an earlier URL is treated as that of a payee that moves."
)
_NONE = "none"


class UrlForm(forms.Form):
    """The URL of an agent's owner."""

    url = forms.CharField(
        required=False,
        label="URL of its owner",
        help_text="An https URL, such as https://owner.example.com/approvals. Empty: the owner is told nothing.",
        widget=forms.TextInput(attrs={"class": "vTextField", "autocomplete": "off", "spellcheck": "false"}),
    )

    def __init__(self, agent: Agent, posted: Any) -> None:
        super().__init__(posted if "url" in posted else None, initial={"url": _url_of(agent)}, auto_id="id_%s")

    def clean_url(self) -> str:
        try:
            return read_url(self.cleaned_data["url"]) if self.cleaned_data["url"] else ""
        except OperationRefused as refusal:
            raise forms.ValidationError(str(refusal)) from refusal


class OwnerWebhookActions(ListedAdmin):
    """The action on an agent that sets the URL of its owner."""

    fieldsets: ClassVar[Any] = None  # as in ReadOnlyAdmin

    @admin.action(description="Set its owner's webhook … (asks for URL and reason)", permissions=["operate"])
    def set_webhook(self, request: HttpRequest, agents: QuerySet[Agent]) -> HttpResponse | None:
        if len(agents) != 1:
            self.message_user(request, "Choose one agent: each has its own URL.", messages.ERROR)
            return None
        agent = agents[0]
        step = Step(
            "Set its owner's webhook",
            _WHY,
            _propose,
            _facts,
            partial(UrlForm, agent),
            needs_second=lambda _asked: False,
        )
        return ask(self, request, [agent], step)


def _url_of(agent: Agent) -> str:
    endpoint = WebhookEndpoint.objects.filter(pk=endpoint_of_agent(agent.pk)).first()
    return (endpoint and endpoint.url) or ""


def _facts(agent: Agent) -> dict[str, str]:
    return {"URL of its owner": _url_of(agent) or _NONE}


def _propose(agent: Agent, asked: Mapping[str, Any]) -> Proposal:
    old, new = _url_of(agent), asked["url"]
    if old == new:
        raise OperationRefused(f"That is the webhook URL of {agent.pk} already." if new else "It has no URL.")
    shown = [("Agent", agent.pk), ("URL until now", old or _NONE), ("URL from now on", new or _NONE)]
    arguments = {"agent": agent.pk, **({"url": new} if new else {})}
    return Proposal(SET_WEBHOOK.name, "agent", agent.pk, arguments, shown, "")
