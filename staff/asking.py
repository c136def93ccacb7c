"""From an action of the console to a change: show what will happen, ask for the reason, and propose exactly that.

What is proposed comes back from the page signed, for this person and this action: nothing else that is posted counts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.admin import ModelAdmin
from django.core import signing
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html

from foundation.console.confirmation import Shown, confirm
from foundation.kernel.errors import OperationRefused
from staff.audit import MAX_REASON_LENGTH
from staff.reauthentication import reauthenticate_first
from staff.second_person import Outcome, Proposal, propose, rehearse

_PAGE_LASTS_S = 3600


@dataclass(frozen=True, slots=True)
class Step:
    """A change that staff make by an action on rows.

    `prepare`: makes the proposal for a row, without a reason, from what the form `details` asks for first, if there is
    one. It may raise OperationRefused. `facts`: what the form shows of a row. `is_urgent`: it is done at once, without
    a second person and without asking who it is again. `needs_second`: whether a second person has to confirm a
    proposal where four eyes are on; None: each of them.
    """

    title: str
    explanation: str
    prepare: Callable[[Any, Mapping[str, Any]], Proposal]
    facts: Callable[[Any], Mapping[str, Any]]
    details: Callable[[Any], forms.Form] | None = None
    is_urgent: bool = False
    longest_reason: int = MAX_REASON_LENGTH
    needs_second: Callable[[Proposal], bool] | None = None


class ReasonForm(forms.Form):
    """The reason for a change, and the change itself, signed."""

    reason = forms.CharField(help_text="Why. Kept in the audit.", widget=forms.Textarea(attrs={"rows": 3}))
    sealed = forms.CharField(widget=forms.HiddenInput)

    def __init__(self, step: Step, **options: Any) -> None:
        super().__init__(auto_id="id_%s", **options)
        self.fields["reason"].validators.append(forms.CharField(max_length=step.longest_reason).validators[0])
        self.fields["reason"].widget.attrs["maxlength"] = step.longest_reason


def ask(page: ModelAdmin, request: HttpRequest, rows: Iterable[Model], step: Step) -> HttpResponse | None:
    """Take one step of an action: its form, then what will happen, then the change. None: it is done, or refused."""
    if not step.is_urgent and (detour := reauthenticate_first(request)) is not None:
        return detour
    if "sealed" in request.POST:
        return _answer(page, request, step)
    chosen = list(rows)
    form = None if step.details is None else step.details(request.POST)
    if form is not None and not form.is_valid():
        return _show(page, request, step, [Shown(str(row.pk), str(row), step.facts(row)) for row in chosen], form)
    prepared, refused = _prepare(request, chosen, step, {} if form is None else form.cleaned_data)
    if form is not None and not prepared:
        for sentence in refused:
            form.add_error(None, sentence)
        return _show(page, request, step, [Shown(str(row.pk), str(row), step.facts(row)) for row in chosen], form)
    for sentence in refused:
        page.message_user(request, sentence, messages.ERROR)
    return _confirm(page, request, step, prepared) if prepared else None


def _prepare(
    request: HttpRequest, rows: Sequence[Model], step: Step, asked: Mapping[str, Any]
) -> tuple[dict[str, Proposal], list[str]]:
    """Make the proposals, by the rows' keys, and rehearse them; what would be refused is said instead.

    A page that is only looked at rehearses nothing: that is done once it is sent.
    """
    prepared, refused = {}, []
    for row in rows:
        try:
            proposal = step.prepare(row, asked)
            if request.method == "POST":
                rehearse(proposal, by=request.user)
        except OperationRefused as refusal:
            refused.append(str(refusal))
        else:
            prepared[str(row.pk)] = proposal
    return prepared, list(dict.fromkeys(refused))


def _confirm(
    page: ModelAdmin, request: HttpRequest, step: Step, prepared: Mapping[str, Proposal], form: ReasonForm | None = None
) -> HttpResponse:
    sealed = request.POST.get("sealed") or _seal(request, prepared)
    rows = [Shown(key, one.subject, dict(one.shown)) for key, one in prepared.items()]
    form = form or ReasonForm(step, initial={"sealed": sealed})
    return _show(page, request, step, rows, form, prepared=prepared.values())


def _show(
    page: ModelAdmin,
    request: HttpRequest,
    step: Step,
    rows: Sequence[Shown],
    form: forms.Form,
    *,
    prepared: Iterable[Proposal] = (),
) -> HttpResponse:
    """Show a form; `prepared`: what it asks to confirm, if that is known."""
    always = step.needs_second is None and not step.is_urgent
    waits = settings.FOUR_EYES and (always or any(_needs_second(step, one) for one in prepared))
    second = " Somebody else has to confirm it before it happens." if waits else ""
    return confirm(
        page,
        request,
        action=request.POST["action"],
        title=step.title,
        explanation=step.explanation + second,
        rows=rows,
        form=form,
        button="" if isinstance(form, ReasonForm) else "See what will happen",
        sealed=form.initial.get("sealed", ""),
    )


def _needs_second(step: Step, proposal: Proposal) -> bool:
    return not step.is_urgent and (step.needs_second is None or step.needs_second(proposal))


def _answer(page: ModelAdmin, request: HttpRequest, step: Step) -> HttpResponse | None:
    """Show what was prepared once more, or take the answer of who saw it."""
    prepared = _unseal(request)
    if prepared is None:
        page.message_user(request, "This page is too old. Begin again; nothing was done.", messages.ERROR)
        return None
    form = ReasonForm(step, data=request.POST)
    if request.method != "POST":
        return _confirm(page, request, step, prepared)
    if not form.is_valid():
        return _confirm(page, request, step, prepared, form)
    for proposal in prepared.values():
        try:
            reasoned = replace(proposal, reason=form.cleaned_data["reason"])
            outcome = propose(reasoned, by=request.user, needs_second=_needs_second(step, proposal))
        except OperationRefused as refusal:
            page.message_user(request, str(refusal), messages.ERROR)
        else:
            say(request, outcome)
    return None


def say(request: HttpRequest, outcome: Outcome) -> None:
    """Say what came of a proposal; if it waits for a second person, with a link to its page."""
    if outcome.request is None:
        messages.success(request, outcome.message)
        return
    number = outcome.request.pk
    address = reverse("admin:staff_changerequest_change", args=[number])
    about = f"Request {number}: {outcome.request.subject}"
    messages.warning(request, format_html('{} <a href="{}">{}</a>', outcome.message, address, about))


def _seal(request: HttpRequest, prepared: Mapping[str, Proposal]) -> str:
    content = {
        key: [one.kind, one.subject_type, one.subject, dict(one.arguments), [list(pair) for pair in one.shown]]
        for key, one in prepared.items()
    }
    return signing.dumps(content, salt=_salt(request), compress=True)


def _unseal(request: HttpRequest) -> dict[str, Proposal] | None:
    """Read what was shown to this person by this action within the last hour; None: it is something else."""
    try:
        content = signing.loads(request.POST["sealed"], salt=_salt(request), max_age=_PAGE_LASTS_S)
    except signing.BadSignature:
        return None
    return {
        key: Proposal(kind, subject_type, subject, arguments, [(label, text) for label, text in shown], "")
        for key, (kind, subject_type, subject, arguments, shown) in content.items()
    }


def _salt(request: HttpRequest) -> str:
    return f"staff.asking {request.user.pk} {request.path} {request.POST['action']}"
