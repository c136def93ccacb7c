"""The page of an agent's shadow: what the limits that are tried would have decided otherwise, and how to drop them."""

from functools import partial

from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404

from foundation.console.views import lead_to_page, show_page, staff_page
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from ledger.past_payees import read_payees
from ledger.preview import preview_limits
from payments.admin.agents.differences import compare
from payments.admin.agents.effects import show_effect
from payments.admin.agents.leading import do_and_lead_to_agent, lead_to_agent, refuse_and_lead
from payments.admin.agents.limit_warnings import warnings
from policy.admin.key_forms import ReasonForm
from policy.limits import under
from policy.models import Agent, PolicyRevision, ShadowRevision
from policy.revisions import limits_of
from policy.shadow_proposals import propose_to_drop
from policy.shadows import find_shadow

# As the address of the editor names the limits that it begins with.
SHADOW = "shadow"


@staff_page("policy.view_agent")
def show_shadow(request: HttpRequest, agent_id: str) -> HttpResponse:
    """Show what an agent's shadow would have decided otherwise; with a reason, drop it."""
    agent = get_object_or_404(Agent, pk=unquote(agent_id))
    form = ReasonForm.read(request.POST)
    if request.method == "POST":
        return _drop(request, agent, form)
    shadow = find_shadow(agent.pk)
    if shadow is None:
        messages.info(request, f"{agent.pk} has no shadow.")
        return lead_to_agent(agent.pk)
    try:
        return _show(request, agent, shadow, form)
    except OperationRefused as refusal:
        return refuse_and_lead(request, refusal, lead_to_agent(agent.pk))


def _show(request: HttpRequest, agent: Agent, shadow: ShadowRevision, form: ReasonForm) -> HttpResponse:
    """Show it; raises OperationRefused if only a later release knows one of its limits."""
    present = PolicyRevision.objects.get(agent=agent, number=agent.policy_revision)
    limits = under(present.more.parent, limits_of(shadow))
    effect = preview_limits(agent, limits, now=utc_now(), payees=read_payees(limits), since=shadow.created_at)
    return show_page(
        request,
        "console/agents/shadow.html",
        title=f"Shadow policy of {agent.pk}",
        agent=agent,
        shadow=shadow,
        old_title=f"In force: {present}",
        differences=compare(limits_of(present), limits, agent.asset),
        warnings=warnings(limits, agent.asset),
        form=form,
        **show_effect(request, agent.pk, effect),
    )


def _drop(request: HttpRequest, agent: Agent, form: ReasonForm) -> HttpResponse:
    if not request.user.has_perm("policy.change_agent"):
        raise PermissionDenied
    if not form.is_valid():
        return lead_to_page(request, form)
    asked = partial(propose_to_drop, agent.pk, reason=form.cleaned_data["reason"], by=request.user)
    return do_and_lead_to_agent(request, agent.pk, asked)
