"""The page that makes an agent."""

from django.contrib import messages
from django.contrib.admin.utils import quote
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from allowance.console.views import show_page, staff_page
from allowance.kernel.assets import Asset
from allowance.kernel.errors import OperationRefused
from payments.admin.agents.forms import AgentForm, warnings
from policy.operations import create_agent
from staff.reauthentication import reauthenticate_first


@staff_page("policy.add_agent")
def make_agent(request: HttpRequest) -> HttpResponse:
    """Make an agent with its first limits; it has no money yet, so the page of how to fund it comes next."""
    if (detour := reauthenticate_first(request)) is not None:
        return detour
    form = AgentForm(request.POST or None)
    if form.is_valid():
        cleaned, limits = form.cleaned_data, form.limits()
        try:
            agent = create_agent(
                cleaned["id"],
                asset=Asset(cleaned["asset"]),
                limits=limits,
                by=request.user.get_username(),
                reason=cleaned["reason"],
            )
        except OperationRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            messages.success(request, f"Made {agent}. It has no money yet: this is how it gets some.")
            for warning in warnings(limits):
                messages.warning(request, warning)
            return HttpResponseRedirect(reverse("admin:policy_agent_fund", args=[quote(agent.pk)]))
    return show_page(request, "console/agents/new.html", title="Make an agent", form=form)
