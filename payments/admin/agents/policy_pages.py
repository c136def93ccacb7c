"""The pages that change an agent's policy: the editor, then what the change would have done, then the reason."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.admin.utils import quote, unquote
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse

from foundation.console.figures import show_amount
from foundation.console.kept import forget, sent
from foundation.console.views import lead_to_page, show_page, staff_page
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from ledger.past import Payee
from ledger.preview import PERIOD, Preview, Share, preview_limits
from payments.admin.agents.differences import Difference, compare
from payments.admin.agents.forms import LIMIT_FIELDS, LimitsForm
from payments.admin.agents.limit_warnings import warnings
from policy.admin.key_forms import ReasonForm
from policy.limits import Limits
from policy.models import Agent, PolicyRevision
from policy.one_person import takes_two
from policy.proposals import propose_policy
from policy.revisions import limits_of
from policy.rules import words_of_refusal
from services.models import Service
from services.payable import allowed_by
from staff.asking import say
from staff.reauthentication import reauthenticate_first


@staff_page("policy.change_agent")
def edit_policy(request: HttpRequest, agent_id: str) -> HttpResponse:
    """Show the editor; what it sends, with its effect; and what is sent from there, propose."""
    if (detour := reauthenticate_first(request)) is not None:
        return detour
    agent = get_object_or_404(Agent, pk=unquote(agent_id))
    present = PolicyRevision.objects.get(agent=agent, number=agent.policy_revision)
    asset = Asset(agent.asset)
    posted = sent(request)
    if posted is None or "again" in posted:
        return _show_editor(
            request, agent, present, LimitsForm(posted, asset=asset, limits=_beginning(request, present))
        )
    form = LimitsForm(posted, asset=asset, limits=limits_of(present))
    if form.is_valid() and form.limits() == _sorted(limits_of(present)):
        form.add_error(None, "Nothing is changed.")
    if not form.is_valid():
        return _show_editor(request, agent, present, form)
    return _confirm(request, agent, present, form)


def _show_editor(request: HttpRequest, agent: Agent, present: PolicyRevision, form: LimitsForm) -> HttpResponse:
    return show_page(
        request,
        "console/agents/policy.html",
        title=f"Policy of {agent.pk}",
        agent=agent,
        present=present,
        parts=compare(None, limits_of(present), agent.asset),
        form=form,
    )


_OF_PAYEE = ("pk", "asset", "chain", "status", "decided_at", "tags")


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of an agent's policy, and what it would have done."""

    agent: Agent
    present: PolicyRevision
    limits: Limits
    differences: list[Difference]
    effect: Preview


def _confirm(request: HttpRequest, agent: Agent, present: PolicyRevision, form: LimitsForm) -> HttpResponse:
    """Show what the change would have done and ask for a reason; with one, propose it."""
    reason, seen = ReasonForm.read(request.POST), request.POST.get("seen", "")
    is_seen = seen == str(present.number)
    if seen and not is_seen:
        messages.error(request, f"The policy was changed meanwhile: it is {present} now. Look at the difference again.")
    if request.method == "POST" and not (is_seen and reason.is_valid()):
        return lead_to_page(request, reason)
    limits = form.limits()
    change = _Change(agent, present, limits, compare(limits_of(present), limits, agent.asset), _preview(agent, limits))
    if request.method == "POST":
        return _propose(request, change, reason.cleaned_data["reason"])
    return _show_preview(request, change, reason, form)


def _propose(request: HttpRequest, change: _Change, reason: str) -> HttpResponse:
    try:
        outcome = propose_policy(change.present, change.limits, shown=_shown(change), reason=reason, by=request.user)
    except OperationRefused as refusal:
        messages.error(request, str(refusal))
    else:
        say(request, outcome)
    forget(request)
    return HttpResponseRedirect(reverse("admin:policy_agent_change", args=[quote(change.agent.pk)]))


def _show_preview(request: HttpRequest, change: _Change, reason: ReasonForm, form: LimitsForm) -> HttpResponse:
    return show_page(
        request,
        "console/agents/preview.html",
        title=f"New policy of {change.agent.pk}",
        agent=change.agent,
        present=change.present,
        old_title=f"In force: {change.present}",
        differences=change.differences,
        warnings=warnings(change.limits, change.agent.asset),
        effect=change.effect,
        shares=_shares(change.effect),
        days=PERIOD.days,
        sent=_sent(form.data),
        needs_second=takes_two(
            change.agent.pk, Asset(change.agent.asset), change.limits, old=limits_of(change.present)
        ),
        form=reason,
    )


def _preview(agent: Agent, limits: Limits) -> Preview:
    return preview_limits(agent, limits, now=utc_now(), payees=_payees(limits))


def _payees(limits: Limits) -> Mapping[str, Payee]:
    """Read the payees as they are now, those that the new limits allow."""
    services = Service.objects.filter(allowed_by(limits.allowed_services, limits.more.allowed_tags))
    minimums = {caip2: served.minimums for caip2, served in settings.CHAINS.items()}
    return {
        pk: Payee(asset, minimums.get(chain, {}).get(Asset(asset)), decided_at if status == "approved" else None, tags)
        for pk, asset, chain, status, decided_at, tags in services.values_list(*_OF_PAYEE)
    }


def _shares(effect: Preview) -> list[dict[str, Any]]:
    """Put what would have come out differently into words, by rule."""
    return [
        {
            "title": title,
            "share": share,
            "rules": [
                (words_of_refusal(name).refused, count, share.total_by_rule[name])
                for name, count in share.by_rule.most_common()
            ],
            "rows": [
                (one, words_of_refusal(one.rule if is_refused else one.past.rule).refused) for one in share.newest
            ],
        }
        for title, share, is_refused in (
            ("Refused, though they were approved", effect.refused, True),
            ("Let through, though they were refused", effect.let_through, False),
        )
    ]


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
    ]


def _count(share: Share, agent: Agent) -> str:
    return f"{share.count:,} ({show_amount(share.total)} {agent.asset})" if share.count else "none"


def _sent(posted: Any) -> list[tuple[str, str]]:
    """Give what the editor sent, so that the next page sends it again."""
    return [(name, value) for name in LIMIT_FIELDS for value in posted.getlist(name)]


def _beginning(request: HttpRequest, present: PolicyRevision) -> Limits:
    """Begin with the present limits, or with those of an earlier revision that somebody wants back."""
    number = request.GET.get("from", "")
    earlier = None
    if number.isdecimal() and len(number) < len(str(2**31)):
        earlier = PolicyRevision.objects.filter(agent_id=present.agent_id, number=int(number)).first()
    return limits_of(earlier or present)


def _sorted(limits: Limits) -> Limits:
    allowed = None if limits.allowed_services is None else sorted(limits.allowed_services)
    return replace(limits, allowed_services=allowed)
