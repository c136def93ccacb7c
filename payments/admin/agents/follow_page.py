"""The page on which an agent begins to follow a template: which there are, what would change, and the reason."""

from functools import partial

from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404

from foundation.console.views import lead_to_page, show_page, staff_page
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from payments.admin.agents.differences import Difference, compare
from payments.admin.agents.leading import do_and_lead_to_agent, lead_to_agent, refuse_and_lead
from payments.admin.agents.limit_warnings import warnings
from policy.admin.key_forms import ReasonForm
from policy.limits import under
from policy.models import Agent, PolicyRevision, PolicyTemplate
from policy.one_person import takes_two
from policy.revisions import limits_of
from policy.template_operations import check_may_follow
from policy.template_proposals import propose_following
from staff.reauthentication import reauthenticate_first


@staff_page("policy.change_agent")
def follow(request: HttpRequest, agent_id: str) -> HttpResponse:
    """Show the templates; with one of them, what would change; and what is sent from there, propose."""
    if (detour := reauthenticate_first(request)) is not None:
        return detour
    agent = get_object_or_404(Agent, pk=unquote(agent_id))
    present = PolicyRevision.objects.get(agent=agent, number=agent.policy_revision)
    templates = PolicyTemplate.objects.filter(asset=agent.asset).order_by("name")
    template = templates.filter(pk=request.GET.get("template", "")).first()
    if template is None:
        title = f"Let {agent} follow a template"
        return show_page(request, "console/agents/follow.html", title=title, agent=agent, templates=templates)
    try:
        check_may_follow(agent, template)
        return _confirm(request, agent, present, template)
    except OperationRefused as refusal:
        return refuse_and_lead(request, refusal, lead_to_agent(agent.pk))


def _confirm(request: HttpRequest, agent: Agent, present: PolicyRevision, template: PolicyTemplate) -> HttpResponse:
    """Show what would change, or propose it; raises OperationRefused if only a later release knows a limit."""
    reason, asked = ReasonForm.read(request.POST), request.POST.get("seen", "")
    seen = f"{present.number} {template.version}"
    if asked and asked != seen:
        messages.error(request, "The policy or the template was changed meanwhile. Look at the difference again.")
    if request.method == "POST" and not (asked == seen and reason.is_valid()):
        return lead_to_page(request, reason)
    old, new = limits_of(present), under(present.more.parent, limits_of(template))
    differences = compare(old, new, agent.asset)
    if request.method == "POST":
        return _propose(request, present, template, differences, reason.cleaned_data["reason"])
    return show_page(
        request,
        "console/agents/follow_preview.html",
        title=f"Let {agent} follow {template}",
        agent=agent,
        leaves=present.template,
        old_title=f"In force: {present}",
        differences=differences,
        seen=seen,
        warnings=warnings(new, agent.asset),
        needs_second=takes_two(agent.pk, Asset(agent.asset), new, old=old),
        form=reason,
    )


def _propose(
    request: HttpRequest, present: PolicyRevision, template: PolicyTemplate, differences: list[Difference], reason: str
) -> HttpResponse:
    shown = [
        ("Agent", present.agent_id),
        ("Policy until now", str(present)),
        *([("Template that it leaves", present.template)] if present.template else []),
        ("Template to follow", f"{template}, version {template.version}"),
        *((one.label, f"{one.old} → {one.new}" if one.is_changed else one.new) for one in differences),
    ]
    asked = partial(propose_following, present, template, shown=shown, reason=reason, by=request.user)
    return do_and_lead_to_agent(request, present.agent_id, asked)
