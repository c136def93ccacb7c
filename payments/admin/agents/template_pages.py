"""The pages of templates: the list, a new one, and a change, which shows what changes for whom before it is made."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import Count, F
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import path, reverse

from foundation.console.kept import forget, sent
from foundation.console.views import lead_to_page, show_page, staff_page
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from payments.admin.agents.differences import Difference, compare
from payments.admin.agents.forms import LIMIT_FIELDS, LimitsForm
from payments.admin.agents.leading import do_and_lead, refuse_and_lead
from payments.admin.agents.limit_warnings import warnings
from policy.admin.key_forms import ReasonForm
from policy.followers import followers_of
from policy.limits import Limits, under
from policy.models import PolicyRevision, PolicyTemplate
from policy.revisions import limits_of
from policy.template_operations import check_new_template
from policy.template_proposals import propose_new_template, propose_template, takes_two_for, write_followers
from staff.asking import say
from staff.reauthentication import reauthenticate_first

_EDITOR = "console/agents/template.html"


class TemplateForm(LimitsForm):
    """A new template: its name, the asset of the agents that will follow it, its limits."""

    name = forms.CharField(label="Name", help_text="Such as research: lower-case letters, digits, hyphens. It stays.")
    asset = forms.ChoiceField(
        choices=[(asset.value, asset.value) for asset in Asset], help_text="That of the agents which follow it."
    )
    reason = forms.CharField(max_length=500, help_text="Why. Kept in the audit.")
    field_order = ("name", "asset", *LIMIT_FIELDS, "reason")

    def __init__(self, posted: Any) -> None:
        super().__init__(posted)
        self.order_fields(self.field_order)
        if posted and posted.get("asset") in Asset.__members__:
            self._set_asset(Asset(posted["asset"]))


@staff_page("policy.view_agent")
def show_templates(request: HttpRequest) -> HttpResponse:
    """List the templates, each with its limits and who follows it."""
    in_force = PolicyRevision.objects.filter(number=F("agent__policy_revision")).exclude(template="")
    counts = dict(in_force.order_by().values_list("template").annotate(Count("pk")))
    rows = [(one, counts.get(one.name, 0), *_parts(one)) for one in PolicyTemplate.objects.order_by("name")]
    return show_page(request, "console/agents/templates.html", title="Templates", rows=rows)


def _parts(template: PolicyTemplate) -> tuple[list[Difference], str]:
    """Say the limits of a template; if only a later release knows one, say that."""
    try:
        return compare(None, limits_of(template), template.asset), ""
    except OperationRefused as refusal:
        return [], str(refusal)


@staff_page("policy.change_agent")
def make_template(request: HttpRequest) -> HttpResponse:
    """Show the form of a new template, and make it: it lets nothing pass before an agent follows it."""
    if (detour := reauthenticate_first(request)) is not None:
        return detour
    form = TemplateForm(sent(request))
    if form.is_valid():
        try:
            return _make(request, form)
        except OperationRefused as refusal:
            form.add_error(None, str(refusal))
    return show_page(request, _EDITOR, title="Make a template", form=form)


def _make(request: HttpRequest, form: TemplateForm) -> HttpResponse:
    """Propose the template; a page that is only looked at says what speaks against it.

    Raises:
        OperationRefused: no such template can be made.
    """
    name, asset, limits = form.cleaned_data["name"], Asset(form.cleaned_data["asset"]), form.limits()
    check_new_template(name, asset, limits)
    if request.method != "POST":
        return show_page(request, _EDITOR, title="Make a template", form=form)
    shown = [(one.label, one.new) for one in compare(None, limits, asset)]
    reason = form.cleaned_data["reason"]
    say(request, propose_new_template(name, asset, limits, shown=shown, reason=reason, by=request.user))
    forget(request)
    return _leave()


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of a template, and those that follow it, each with its revision in force."""

    template: PolicyTemplate
    followers: Sequence[PolicyRevision]
    limits: Limits

    @property
    def seen(self) -> str:
        """Name the version and the followers, so that no others are changed than those that were shown."""
        what = "\n".join([str(self.template.version), *write_followers(self.followers)])
        return hashlib.sha256(what.encode()).hexdigest()

    @property
    def differences(self) -> list[Difference]:
        return compare(limits_of(self.template), self.limits, self.template.asset)

    @property
    def by_agents(self) -> list[tuple[list[str], list[Difference]]]:
        """Give what changes for whom: for all alike, unless a policy is not what its template says."""
        changes = sorted(
            (compare(under(None, limits_of(one)), self.limits, self.template.asset), f"{one.agent_id} ({one})")
            for one in self.followers
        )
        return [
            ([agent for _, agent in alike], [one for one in differences if one.is_changed])
            for differences, alike in groupby(changes, lambda change: change[0])
        ]

    @property
    def shown(self) -> list[tuple[str, str]]:
        """Write down what the author saw, for the second person."""
        found = [("Template", self.template.name), ("Version until now", str(self.template.version))]
        found += [(one.label, f"{one.old} → {one.new}" if one.is_changed else one.new) for one in self.differences]
        for agents, differences in self.by_agents:
            what = "; ".join(f"{one.label}: {one.old} → {one.new}" for one in differences) or "nothing changes"
            found.append(("For " + ", ".join(agents), what))
        return found if self.followers else [*found, ("For", "no agent: nobody follows it")]


@staff_page("policy.change_agent")
def edit_template(request: HttpRequest, name: str) -> HttpResponse:
    """Show the editor; what it sends, with whom it changes what for; and what is sent from there, propose."""
    if (detour := reauthenticate_first(request)) is not None:
        return detour
    try:
        return _edit(request, get_object_or_404(PolicyTemplate, pk=name))
    except OperationRefused as refusal:
        return refuse_and_lead(request, refusal, _leave())


def _edit(request: HttpRequest, template: PolicyTemplate) -> HttpResponse:
    """Take one step; raises OperationRefused if only a later release knows a limit of it, or of an agent's policy."""
    present, asset = limits_of(template), Asset(template.asset)
    posted = sent(request)
    form = LimitsForm(posted, asset=asset, limits=present)
    if posted is not None and "again" not in posted and form.is_valid():
        change = _Change(template, list(followers_of(template.name).select_related("agent")), form.limits())
        if any(one.is_changed for one in change.differences):
            return _confirm(request, change, form)
        form.add_error(None, "Nothing is changed.")
    return show_page(request, _EDITOR, title=f"Template {template}", form=form, known=template)


def _confirm(request: HttpRequest, change: _Change, form: LimitsForm) -> HttpResponse:
    reason, seen = ReasonForm.read(request.POST), request.POST.get("seen", "")
    posted: Any = form.data
    if seen and seen != change.seen:
        messages.error(request, "The template, or who follows it, was changed meanwhile. Look at it again.")
    if request.method == "POST" and not (seen == change.seen and reason.is_valid()):
        return lead_to_page(request, reason)
    if request.method == "POST":
        what, why = (change.template, change.followers, change.limits), reason.cleaned_data["reason"]
        asked = partial(propose_template, *what, shown=change.shown, reason=why, by=request.user)
        return do_and_lead(request, asked, _leave())
    return show_page(
        request,
        "console/agents/template_preview.html",
        title=f"New version of {change.template}",
        change=change,
        warnings=warnings(change.limits, change.template.asset),
        needs_second=takes_two_for(change.template, change.followers, change.limits),
        sent=[(name, value) for name in LIMIT_FIELDS for value in posted.getlist(name)],
        form=reason,
    )


def _leave() -> HttpResponse:
    return HttpResponseRedirect(reverse("admin:policy_agent_templates"))


# Those before agents' own pages, whose ids may be anything.
TEMPLATE_PAGES = (
    path("templates/", show_templates, name="policy_agent_templates"),
    path("templates/new/", make_template, name="policy_agent_new_template"),
    path("templates/<slug:name>/edit/", edit_template, name="policy_agent_template"),
)
