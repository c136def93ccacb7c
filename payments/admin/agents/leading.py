"""Propose what a page about agents asks for, say what became of it, and lead to the page that shows it."""

from collections.abc import Callable

from django.contrib import messages
from django.contrib.admin.utils import quote
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from foundation.console.kept import forget
from foundation.kernel.errors import OperationRefused
from staff.asking import say
from staff.second_person import Outcome


def do_and_lead_to_agent(request: HttpRequest, agent_id: str, change: Callable[[], Outcome]) -> HttpResponse:
    """Propose a change of an agent, say what became of it, and lead to the agent's page."""
    return do_and_lead(request, change, lead_to_agent(agent_id))


def do_and_lead(request: HttpRequest, change: Callable[[], Outcome], to: HttpResponse) -> HttpResponse:
    """Propose a change, say what became of it, and lead to another page."""
    try:
        outcome = change()
    except OperationRefused as refusal:
        messages.error(request, str(refusal))
    else:
        say(request, outcome)
    forget(request)
    return to


def refuse_and_lead(request: HttpRequest, refusal: OperationRefused, to: HttpResponse) -> HttpResponse:
    """Say why a page cannot be shown, such as a limit that only a later release knows, and lead to another one."""
    messages.error(request, str(refusal))
    return to


def lead_to_agent(agent_id: str) -> HttpResponse:
    """Lead to the page of an agent."""
    return HttpResponseRedirect(reverse("admin:policy_agent_change", args=[quote(agent_id)]))
