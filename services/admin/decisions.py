"""Decide on services in the console: each action shows all that is known first, and is about what was shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from chains.catalogue import find_chain
from foundation.console.views import show_form
from foundation.kernel.errors import OperationRefused
from services.admin.decision_forms import Facts, ReasonForm, read_shown, seal, unseal
from services.admin.decision_steps import APPROVE, DISABLE, ENABLE, REJECT, REOPEN, Step
from services.admin.tags import TagActions
from services.admin.webhook_columns import rotation
from services.approvals import facts_of, make_proposal, why_second_person
from services.dossiers import Dossier, find_dossiers
from services.models import Service, WebhookEndpoint
from staff.asking import say
from staff.kinds import make
from staff.reauthentication import reauthenticate_first
from staff.second_person import Outcome, propose


@dataclass(frozen=True, slots=True)
class Answer:
    """What was posted from the page of a step: which registrations were shown, and as what; and the reason."""

    step: Step
    shown: dict[str, int]
    seen: dict[tuple[str, int], Facts]
    reason: str


class DecisionActions(TagActions):
    """Actions of finance staff on services."""

    actions = ("approve", "reject", "disable", "enable", "reopen", "tag")

    @admin.action(description="Approve … (shows what will be approved)", permissions=["operate"])
    def approve(self, request: HttpRequest, services: QuerySet[Service]) -> HttpResponse | None:
        return self._decide(request, services, APPROVE)

    @admin.action(description="Reject …", permissions=["operate"])
    def reject(self, request: HttpRequest, services: QuerySet[Service]) -> HttpResponse | None:
        return self._decide(request, services, REJECT)

    @admin.action(description="Disable …", permissions=["operate"])
    def disable(self, request: HttpRequest, services: QuerySet[Service]) -> HttpResponse | None:
        return self._decide(request, services, DISABLE)

    @admin.action(description="Enable …", permissions=["operate"])
    def enable(self, request: HttpRequest, services: QuerySet[Service]) -> HttpResponse | None:
        return self._decide(request, services, ENABLE)

    @admin.action(description="Take up again what was rejected …", permissions=["operate"])
    def reopen(self, request: HttpRequest, services: QuerySet[Service]) -> HttpResponse | None:
        return self._decide(request, services, REOPEN)

    def _decide(self, request: HttpRequest, services: QuerySet[Service], step: Step) -> HttpResponse | None:
        """Ask, and do what was confirmed: each service that was shown, whatever is selected now."""
        if step.lets_pay and (detour := reauthenticate_first(request)) is not None:
            return detour
        shown = read_shown(request.POST.getlist("shown"))
        if not shown:
            return self._ask(request, _find(services), step)
        dossiers = _find(Service.objects.filter(pk__in=shown))
        seen = unseal(request.POST.getlist("seen"))
        form = _form(step, dossiers, request.POST)
        unseen = [one for one in _doubtful(step, dossiers) if (one.service.pk, shown[one.service.pk]) not in seen]
        if not form.is_valid() or any(one.service.registration == shown[one.service.pk] for one in unseen):
            return self._ask(request, dossiers, step, form)
        answer = Answer(step, shown, seen, form.cleaned_data["reason"])
        known = {dossier.service.pk: dossier for dossier in dossiers}
        for service_id in shown:
            self._answer(request, service_id, known.get(service_id), answer)
        return None

    def _answer(self, request: HttpRequest, service_id: str, dossier: Dossier | None, answer: Answer) -> None:
        number, step = answer.shown[service_id], answer.step
        by = request.user.get_username()
        try:
            _check_judged(dossier, number)
            if dossier and _doubtful(step, [dossier]):
                outcome = self._propose(request, dossier, answer)
            else:
                arguments = {"service": service_id, "registration": number}
                outcome = Outcome(make(step.kind, arguments, by=by, reason=answer.reason))
        except OperationRefused as refusal:
            self.message_user(request, str(refusal), messages.ERROR)
        else:
            say(request, outcome)

    def _propose(self, request: HttpRequest, dossier: Dossier, answer: Answer) -> Outcome:
        service_id = dossier.service.pk
        number = answer.shown[service_id]
        for waiting in dossier.requests:
            if waiting.arguments.get("registration") == number:
                raise OperationRefused(f"{waiting.asked_by} asked for this already: a second person has to confirm it.")
        proposal = make_proposal(dossier, number, answer.seen[service_id, number], answer.reason)
        return propose(proposal, by=request.user)

    def _ask(
        self, request: HttpRequest, dossiers: Sequence[Dossier], step: Step, form: ReasonForm | None = None
    ) -> HttpResponse:
        context = {
            "title": f"{step.title} payees",
            "opts": self.opts,
            "step": step,
            "action": request.POST["action"],
            "form": form or _form(step, dossiers),
            "rows": [show(dossier, step) for dossier in dossiers],
            "button": _button(step, len(dossiers), len(_doubtful(step, dossiers)) if settings.FOUR_EYES else 0),
        }
        return show_form(request, "admin/services/service/decide.html", context)


def show(dossier: Dossier, step: Step | None = None) -> dict[str, Any]:
    """Make what the template of a dossier needs; without a step: to look at, not to decide."""
    service, endpoint = dossier.service, WebhookEndpoint.objects.filter(pk=dossier.service.pk).first()
    why = why_second_person(dossier) if step is None or step.lets_pay else []
    return {
        "dossier": dossier,
        "service": service,
        "why": why,
        "four_eyes": settings.FOUR_EYES,
        "explorer": chain.link_to_address(service.address) if (chain := find_chain(service.chain)) else "",
        "rotation": rotation(endpoint) if endpoint else "",
        "sealed": seal(service.pk, service.registration, facts_of(dossier)) if step and why else "",
    }


def _find(services: QuerySet[Service]) -> list[Dossier]:
    return find_dossiers(list(services))


def _form(step: Step, dossiers: Sequence[Dossier], posted: Any = None) -> ReasonForm:
    """Ask for a reason; an approval that one person is enough for needs none."""
    return ReasonForm(posted, is_required=step is not APPROVE or bool(_doubtful(step, dossiers)))


def _button(step: Step, shown: int, asked: int) -> str:
    """Say what the button of a step does with what is shown; `asked`: to how many of it a second person belongs."""
    if not asked:
        return f"{step.title} {_payees(shown)}"
    if asked == shown:
        return f"Ask for approval of {_payees(asked)}"
    return f"{step.title} {_payees(shown - asked)}, and ask for approval of {asked}"


def _payees(count: int) -> str:
    return "1 payee" if count == 1 else f"{count} payees"


def _doubtful(step: Step, dossiers: Sequence[Dossier]) -> list[Dossier]:
    """Find the services for which a second person is needed."""
    return [dossier for dossier in dossiers if step.lets_pay and why_second_person(dossier)]


def _check_judged(dossier: Dossier | None, number: int) -> None:
    """Refuse a registration for which nobody has judged whether it needs a second person: another one was looked at."""
    if dossier and dossier.service.registration != number:
        raise OperationRefused(f"{dossier.service} was changed after it was shown. Look at it again.")
