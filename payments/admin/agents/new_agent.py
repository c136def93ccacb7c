"""The page that makes an agent: the form, then what will be in force, and then it is made."""

from django.contrib import messages
from django.contrib.admin.utils import quote
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from allowance.console.views import show_page, staff_page
from allowance.kernel.assets import Asset
from allowance.kernel.errors import OperationRefused
from payments.admin.agents.differences import compare
from payments.admin.agents.forms import AgentForm, warnings
from policy.agent_ids import check_is_distinct, find_lookalikes
from policy.operations import check_new_agent, create_agent
from staff.reauthentication import reauthenticate_first

_MOST_NAMED = 5


@staff_page("policy.add_agent")
def make_agent(request: HttpRequest) -> HttpResponse:
    """Show the form; what it sends, as it will be in force; and what is sent from there, make."""
    if (detour := reauthenticate_first(request)) is not None:
        return detour
    form = AgentForm(request.POST or None)
    if form.is_valid() and "again" not in request.POST:
        try:
            return _show_or_make(request, form)
        except OperationRefused as refusal:
            form.add_error(None, str(refusal))
    return show_page(request, "console/agents/new.html", title="Make an agent", form=form)


def _show_or_make(request: HttpRequest, form: AgentForm) -> HttpResponse:
    """Make the agent if somebody has seen what will be in force, with every warning that there is now.

    Raises:
        OperationRefused: as of `create_agent`, or another agent is taken for it.
    """
    agent_id, asset = form.cleaned_data["id"], Asset(form.cleaned_data["asset"])
    check_new_agent(agent_id, asset, form.limits())
    check_is_distinct(agent_id)
    doubts = _doubts(agent_id, form, asset)
    if "make" in request.POST and request.POST.getlist("seen") == doubts:
        return _make(request, form)
    return show_page(
        request,
        "console/agents/new_preview.html",
        title=f"Make {agent_id}",
        agent_id=agent_id,
        reason=form.cleaned_data["reason"],
        parts=compare(None, form.limits(), asset),
        warnings=doubts,
        sent=[(name, value) for name in AgentForm.field_order for value in request.POST.getlist(name)],
    )


def _make(request: HttpRequest, form: AgentForm) -> HttpResponse:
    cleaned = form.cleaned_data
    agent = create_agent(
        cleaned["id"],
        asset=Asset(cleaned["asset"]),
        limits=form.limits(),
        by=request.user.get_username(),
        reason=cleaned["reason"],
    )
    messages.success(request, f"Made {agent}. It has no money yet: this is how it gets some.")
    return HttpResponseRedirect(reverse("admin:policy_agent_fund", args=[quote(agent.pk)]))


def _doubts(agent_id: str, form: AgentForm, asset: Asset) -> list[str]:
    """Say what may not be meant."""
    like = [f"It can be taken for the agent “{other}”." for other in find_lookalikes(agent_id)[:_MOST_NAMED]]
    return [*like, *warnings(form.limits(), asset)]
