"""The page that makes an agent: the form, then what will be in force, and then it is made, or a second one asked."""

from django.contrib import messages
from django.contrib.admin.utils import quote
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse

from foundation.console.kept import forget, sent
from foundation.console.views import lead_to_page, show_page, staff_page
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from payments.admin.agents.differences import compare
from payments.admin.agents.forms import AgentForm
from payments.admin.agents.limit_warnings import warnings
from payments.admin.agents.moves import say_move
from policy.agent_ids import check_is_distinct, find_lookalikes
from policy.one_person import takes_two
from policy.operations import check_new_agent
from policy.proposals import propose_agent
from staff.asking import say
from staff.reauthentication import reauthenticate_first


@staff_page("policy.add_agent")
def make_agent(request: HttpRequest) -> HttpResponse:
    """Show the form; what it sends, as it will be in force; and what is sent from there, make."""
    if (detour := reauthenticate_first(request)) is not None:
        return detour
    posted = sent(request)
    form = AgentForm(posted)
    if posted and form.is_valid() and "again" not in posted:
        try:
            return _show_or_make(request, form, posted)
        except OperationRefused as refusal:
            form.add_error(None, str(refusal))
    return show_page(request, "console/agents/new.html", title="Make an agent", form=form)


def _show_or_make(request: HttpRequest, form: AgentForm, posted: QueryDict) -> HttpResponse:
    """Propose the agent if somebody has seen what will be in force, with every warning that there is now.

    Raises:
        OperationRefused: no such agent can be made.
    """
    agent_id, asset = form.cleaned_data["id"], Asset(form.cleaned_data["asset"])
    check_new_agent(agent_id, asset, form.limits())
    check_is_distinct(agent_id)
    doubts = _doubts(agent_id, form, asset)
    if "make" in request.POST and request.POST.getlist("seen") == doubts:
        return _propose(request, form, doubts)
    return show_page(
        request,
        "console/agents/new_preview.html",
        title=f"Make {agent_id}",
        form=form,
        agent_id=agent_id,
        reason=form.cleaned_data["reason"],
        parts=compare(None, form.limits(), asset),
        needs_second=takes_two(agent_id, asset, form.limits()),
        warnings=doubts,
        move=say_move(agent_id, None, form.limits()),
        sent=[(name, value) for name in AgentForm.field_order for value in posted.getlist(name)],
    )


def _propose(request: HttpRequest, form: AgentForm, doubts: list[str]) -> HttpResponse:
    agent_id, asset, limits = form.cleaned_data["id"], Asset(form.cleaned_data["asset"]), form.limits()
    shown = [
        ("Agent", agent_id),
        *((part.label, part.new) for part in compare(None, limits, asset)),
        *(("Warning", doubt) for doubt in doubts),
    ]
    reason = form.cleaned_data["reason"]
    try:
        outcome = propose_agent(agent_id, asset, limits, shown=shown, reason=reason, by=request.user)
    except OperationRefused as refusal:
        messages.error(request, str(refusal))
        return lead_to_page(request, form)
    say(request, outcome)
    forget(request)
    if outcome.request is not None:
        return HttpResponseRedirect(reverse("admin:policy_agent_changelist"))
    return HttpResponseRedirect(reverse("admin:policy_agent_fund", args=[quote(agent_id)]))


def _doubts(agent_id: str, form: AgentForm, asset: Asset) -> list[str]:
    """Say what may not be meant."""
    like = [f"It can be taken for the agent “{other}”." for other in find_lookalikes(agent_id)]
    return [*like, *warnings(form.limits(), asset)]
