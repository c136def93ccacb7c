"""The console's page of requests: what waits for a second person, and what became of the others."""

from collections.abc import Callable
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse

from foundation.console.kept import is_step
from foundation.console.pages import ReadOnlyAdmin
from foundation.console.views import show_page
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from staff.admin.subjects import link_to
from staff.audit import MAX_REASON_LENGTH
from staff.change_requests import find_waiting
from staff.deciders import find_objection
from staff.independence import read_hands
from staff.kinds import find_kind
from staff.links import halves_for
from staff.models import ChangeRequest, RequestState
from staff.reauthentication import reauthenticate_first
from staff.second_person import confirm, refuse
from staff.sign_in.links import Halves
from staff.words import name_subject_type

PER_PAGE = 50
Look = Callable[[ChangeRequest], tuple[str, dict[str, Any]] | None]
# By the kind of a request: what shows its subject as the first person looked at it, by a template and what that needs;
# None: the subject is not any more what was asked about. Apps above this one add to it.
looks: dict[str, Look] = {}


class RefusalForm(forms.Form):
    """Why a request is refused or taken back."""

    reason = forms.CharField(
        max_length=MAX_REASON_LENGTH, help_text="Kept in the audit.", widget=forms.Textarea(attrs={"rows": 3})
    )


@admin.register(ChangeRequest)
class RequestAdmin(ReadOnlyAdmin):
    fieldsets: ClassVar[Any] = None

    def get_urls(self) -> list[URLPattern]:
        decide = self.admin_site.admin_view(self.decide)
        return [path("<int:number>/decide/", decide, name="staff_changerequest_decide"), *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.method == "POST" or not self.has_view_permission(request):
            raise PermissionDenied
        state = request.GET.get("state", "")
        past = list(_past(state, request.GET.get("older", ""))[: PER_PAGE + 1])
        return show_page(
            request,
            "console/requests.html",
            title="Requests",
            waiting=[_line(one) for one in find_waiting()],
            past=[_line(one) for one in past[:PER_PAGE]],
            older=past[PER_PAGE - 1].pk if len(past) > PER_PAGE else None,
            state=state,
            states=[(one.value, one.label) for one in RequestState if one != RequestState.WAITING],
            **(extra_context or {}),
        )

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if request.method == "POST" or not self.has_view_permission(request):
            raise PermissionDenied
        found = ChangeRequest.objects.filter(pk=object_id).first() if object_id.isdecimal() else None
        if found is None:
            raise Http404
        half = halves_for(request.user.get_username(), found)
        if half is not None and (detour := reauthenticate_first(request)) is not None:
            return detour
        return _show(request, found, RefusalForm(), half)

    def decide(self, request: HttpRequest, number: int) -> HttpResponse:
        """Confirm, refuse or take back what was asked for, and return to its page."""
        found = get_object_or_404(ChangeRequest, pk=number)
        # What was sent wrong, or too late, is shown again.
        if not self.has_view_permission(request) or not (request.method == "POST" or is_step(request)):
            raise PermissionDenied
        if request.method != "POST":
            return _show(request, found, RefusalForm())
        if "confirm" in request.POST:
            if (detour := reauthenticate_first(request)) is not None:
                return detour
            self._say(request, lambda: confirm(number, by=request.user).message, confirmed=number)
        else:
            form = RefusalForm(request.POST)
            is_own = found.asked_by == request.user.get_username()
            if not form.is_valid() and not (is_own and "reason" not in form.data):
                return _show(request, found, form)
            reason = form.cleaned_data.get("reason", "")
            done = "Took back" if is_own else "Refused"
            self._say(request, lambda: f"{done} {_title(refuse(number, by=request.user, reason=reason))}.")
        return HttpResponseRedirect(reverse("admin:staff_changerequest_change", args=[number]))

    def _say(self, request: HttpRequest, decide: Callable[[], str], confirmed: int | None = None) -> None:
        try:
            self.message_user(request, decide(), messages.SUCCESS)
        except OperationRefused as refusal:
            after = " It goes on waiting." if confirmed is not None and _waits(confirmed) else ""
            self.message_user(request, f"Nothing was done. {refusal}{after}", messages.ERROR)


def _waits(number: int) -> bool:
    return ChangeRequest.objects.filter(pk=number, state=RequestState.WAITING, expires_at__gt=utc_now()).exists()


def _past(state: str, older: str) -> QuerySet[ChangeRequest]:
    """Find the requests that do not wait any more, newest first, in one state if it is named."""
    late = Q(state=RequestState.WAITING, expires_at__lte=utc_now())
    over = Q(state=RequestState.EXPIRED) | late
    wanted = (
        over if state == RequestState.EXPIRED else Q(state=state) if state else ~Q(state=RequestState.WAITING) | late
    )
    found = ChangeRequest.objects.filter(wanted, ~Q(state=RequestState.WAITING) | late)
    return found.filter(pk__lt=int(older[:18])) if older.isdecimal() else found


def _line(one: ChangeRequest) -> dict[str, Any]:
    state = one.state_at(utc_now())
    return {
        "request_row": one,
        "title": _title(one),
        "state": state.value,
        "state_label": state.label,
        "subject_type": name_subject_type(one.subject_type),
        "link": link_to(one.subject_type, one.subject),
    }


def _title(one: ChangeRequest) -> str:
    return find_kind(one.kind).title


def _show(request: HttpRequest, found: ChangeRequest, form: RefusalForm, half: Halves | None = None) -> HttpResponse:
    line, kind = _line(found), find_kind(found.kind)
    person = request.user.get_username()
    is_waiting = line["state"] == RequestState.WAITING
    may_decide = request.user.has_perm(kind.permission)
    objection = find_objection(found, person) if is_waiting and may_decide else ""
    has_look = is_waiting and may_decide and found.kind in looks
    look = looks[found.kind](found) if has_look else None
    template, known = look or ("", {})
    return show_page(
        request,
        "console/request.html",
        title=line["title"],
        form=form,
        is_own=person == found.asked_by,
        may_confirm=is_waiting and may_decide and not objection,
        objection=objection,
        half=half,
        may_refuse=is_waiting and (may_decide or person == found.asked_by),
        look=template,
        is_outdated=has_look and look is None,
        **known,
        **{name: value for name, value in line.items() if name != "title"},
    )


def badge(request: HttpRequest) -> str:
    """Count what waits for this person's decision; "": nothing does."""
    person = request.user.get_username()
    requests = find_waiting()
    hands = read_hands() if requests else None
    waiting = [one for one in requests if not find_objection(one, person, hands)]
    count = sum(request.user.has_perm(find_kind(one.kind).permission) for one in waiting)
    return str(count or "")
