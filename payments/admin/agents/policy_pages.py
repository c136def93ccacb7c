"""The pages that change an agent's policy: the editor, then what the change would have done, then the reason."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404

from foundation.console.figures import show_amount
from foundation.console.kept import sent
from foundation.console.views import lead_to_page, show_page, staff_page
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from ledger.past_payees import read_payees
from ledger.preview import PERIOD, Preview, Share, preview_limits
from payments.admin.agents.differences import Difference, compare
from payments.admin.agents.effects import show_effect
from payments.admin.agents.forms import LIMIT_FIELDS, PolicyForm
from payments.admin.agents.leading import do_and_lead_to_agent, lead_to_agent, refuse_and_lead
from payments.admin.agents.limit_warnings import warnings
from payments.admin.agents.moves import say_move
from payments.admin.agents.shadow_page import SHADOW
from policy.admin.key_forms import ReasonForm
from policy.limits import Limits, under
from policy.models import Agent, PolicyRevision
from policy.one_person import takes_two
from policy.proposals import propose_policy
from policy.revisions import limits_of
from policy.shadow_proposals import propose_shadow
from policy.shadows import find_shadow
from staff.reauthentication import reauthenticate_first


@staff_page("policy.change_agent")
def edit_policy(request: HttpRequest, agent_id: str) -> HttpResponse:
    """Show the editor; what it sends, with its effect; and what is sent from there, propose."""
    if (detour := reauthenticate_first(request)) is not None:
        return detour
    agent = get_object_or_404(Agent, pk=unquote(agent_id))
    try:
        return _edit(request, agent)
    except OperationRefused as refusal:
        return refuse_and_lead(request, refusal, lead_to_agent(agent.pk))


def _edit(request: HttpRequest, agent: Agent) -> HttpResponse:
    """Take one step; raises OperationRefused if only a later release knows a limit of its policy."""
    present = PolicyRevision.objects.get(agent=agent, number=agent.policy_revision)
    asset = Asset(agent.asset)
    posted = sent(request)
    if posted is None or "again" in posted:
        limits = _beginning(request, present)
        return _show_editor(request, agent, present, PolicyForm(posted, agent_id=agent.pk, asset=asset, limits=limits))
    form = PolicyForm(posted, agent_id=agent.pk, asset=asset, limits=limits_of(present))
    if form.is_valid() and form.limits() == _sorted(limits_of(present)):
        form.add_error(None, "Nothing is changed.")
    if not form.is_valid():
        return _show_editor(request, agent, present, form)
    return _confirm(request, agent, present, form)


def _show_editor(request: HttpRequest, agent: Agent, present: PolicyRevision, form: PolicyForm) -> HttpResponse:
    return show_page(
        request,
        "console/agents/policy.html",
        title=f"Policy of {agent.pk}",
        agent=agent,
        present=present,
        parts=compare(None, limits_of(present), agent.asset),
        form=form,
    )


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of an agent's policy, and what it would have done."""

    agent: Agent
    present: PolicyRevision
    limits: Limits
    differences: list[Difference]
    effect: Preview


def _confirm(request: HttpRequest, agent: Agent, present: PolicyRevision, form: PolicyForm) -> HttpResponse:
    """Show what the change would have done and ask for a reason; with one, propose it."""
    reason, seen = ReasonForm.read(request.POST), request.POST.get("seen", "")
    is_seen = seen == str(present.number)
    if seen and not is_seen:
        messages.error(request, f"The policy was changed meanwhile: it is {present} now. Look at the difference again.")
    if request.method == "POST" and not (is_seen and reason.is_valid()):
        return lead_to_page(request, reason)
    limits = form.limits()
    if request.method == "POST" and "shadow" in request.POST:
        return _begin_shadow(request, agent, limits, reason.cleaned_data["reason"])
    change = _Change(agent, present, limits, compare(limits_of(present), limits, agent.asset), _preview(agent, limits))
    if request.method == "POST":
        return _propose(request, change, reason.cleaned_data["reason"])
    return _show_preview(request, change, reason, form)


def _propose(request: HttpRequest, change: _Change, reason: str) -> HttpResponse:
    asked = partial(propose_policy, change.present, change.limits, shown=_shown(change), reason=reason, by=request.user)
    return do_and_lead_to_agent(request, change.agent.pk, asked)


def _begin_shadow(request: HttpRequest, agent: Agent, limits: Limits, reason: str) -> HttpResponse:
    asked = partial(propose_shadow, agent.pk, limits, reason=reason, by=request.user)
    return do_and_lead_to_agent(request, agent.pk, asked)


def _show_preview(request: HttpRequest, change: _Change, reason: ReasonForm, form: PolicyForm) -> HttpResponse:
    return show_page(
        request,
        "console/agents/preview.html",
        title=f"New policy of {change.agent.pk}",
        agent=change.agent,
        present=change.present,
        old_title=f"In force: {change.present}",
        differences=change.differences,
        warnings=warnings(change.limits, change.agent.asset),
        move=say_move(change.agent.pk, limits_of(change.present), change.limits),
        days=PERIOD.days,
        has_shadow=find_shadow(change.agent.pk) is not None,
        **show_effect(request, change.agent.pk, change.effect),
        sent=_sent(form.data),
        needs_second=takes_two(
            change.agent.pk, Asset(change.agent.asset), change.limits, old=limits_of(change.present)
        ),
        form=reason,
    )


def _preview(agent: Agent, limits: Limits) -> Preview:
    return preview_limits(agent, limits, now=utc_now(), payees=read_payees(limits))


def _shown(change: _Change) -> list[tuple[str, str]]:
    """Write down what the author saw, for the second person."""
    effect = change.effect
    return [
        ("Agent", change.agent.pk),
        ("Policy until now", str(change.present)),
        *([("Template that it leaves", change.present.template)] if change.present.template else []),
        *((one.label, f"{one.old} → {one.new}" if one.is_changed else one.new) for one in change.differences),
        (f"Refused in {PERIOD.days} days that was approved", _count(effect.refused, change.agent)),
        (f"Let through in {PERIOD.days} days that was refused", _count(effect.let_through, change.agent)),
        *_held(effect, change.agent),
        *(("Of these figures", note) for note in effect.notes),
    ]


def _held(effect: Preview, agent: Agent) -> list[tuple[str, str]]:
    """Say what a person would have been asked about, or not any more; nothing where nobody is asked."""
    shares = (
        ("Held in {} days for a person", effect.held),
        ("Approved in {} days by a person, not asked now", effect.unasked),
    )
    return [(title.format(PERIOD.days), _count(share, agent)) for title, share in shares if share.count]


def _count(share: Share, agent: Agent) -> str:
    return f"{share.count:,} ({show_amount(share.total)} {agent.asset})" if share.count else "none"


def _sent(posted: Any) -> list[tuple[str, str]]:
    """Give what the editor sent, so that the next page sends it again."""
    return [(name, value) for name in LIMIT_FIELDS for value in posted.getlist(name)]


def _beginning(request: HttpRequest, present: PolicyRevision) -> Limits:
    """Begin with the present limits, or with those of a shadow, or of an earlier revision that somebody wants back."""
    number = request.GET.get("from", "")
    if number == SHADOW and (shadow := find_shadow(present.agent_id)) is not None:
        return under(present.more.parent, limits_of(shadow))
    earlier = None
    if number.isdecimal() and len(number) < len(str(2**31)):
        earlier = PolicyRevision.objects.filter(agent_id=present.agent_id, number=int(number)).first()
    return limits_of(earlier or present)


def _sorted(limits: Limits) -> Limits:
    allowed = None if limits.allowed_services is None else sorted(limits.allowed_services)
    return replace(limits, allowed_services=allowed)
