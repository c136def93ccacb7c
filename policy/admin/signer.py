"""The console's page of the policy signer's switch: its state, and the actions that stop and start it."""

from collections.abc import Mapping
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from foundation.console.columns import column_of
from foundation.console.kept import is_step
from foundation.console.pages import ReadOnlyAdmin
from foundation.kernel.errors import OperationRefused
from policy.models import SignerSwitch
from policy.proposals import START_SIGNER, STOP_SIGNER
from staff.asking import Step, ask
from staff.models import AuditEntry
from staff.second_person import Proposal

_SUBJECT = "policy signer"


@admin.register(SignerSwitch)
class SignerSwitchAdmin(ReadOnlyAdmin):
    """There is one row: its page stands in the place of a list."""

    list_display = ("__str__",)
    fields = ("state", column_of("changed_at", lambda at: f"{at:%Y-%m-%d %H:%M:%S} UTC", "since"),
              column_of("changed_by", str, "by"), "why")  # fmt: skip
    actions = ("stop", "start")

    def get_actions(self, request: HttpRequest) -> Any:
        """Offer what can be done now; what is posted is looked at again."""
        offered = super().get_actions(request)
        if request.method == "GET" and not is_step(request):
            switch = SignerSwitch.objects.filter(pk=1).first()
            offered.pop("start" if switch is None or switch.is_signing else "stop", None)
        return offered

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        is_list = request.method == "GET" and not is_step(request)
        if is_list and self.has_view_permission(request) and SignerSwitch.objects.exists():
            return HttpResponseRedirect(reverse("admin:policy_signerswitch_change", args=[1]))
        return super().changelist_view(request, extra_context)

    def audit_subject(self, row: Any) -> str:
        return _SUBJECT

    @admin.display(description="policy signer")
    def state(self, switch: SignerSwitch) -> str:
        return _state(switch)

    @admin.display(description="reason")
    def why(self, switch: SignerSwitch) -> str:
        entry = AuditEntry.objects.filter(subject=_SUBJECT).first()
        return (entry.reason if entry else "") or "—"

    @admin.action(description="Take out of service … (asks for the reason)", permissions=["operate"])
    def stop(self, request: HttpRequest, switches: QuerySet[SignerSwitch]) -> HttpResponse | None:
        return ask(self, request, switches, _STOP)

    @admin.action(description="Put back in service … (asks for the reason)", permissions=["operate"])
    def start(self, request: HttpRequest, switches: QuerySet[SignerSwitch]) -> HttpResponse | None:
        return ask(self, request, switches, _START)


def _state(switch: SignerSwitch) -> str:
    return "In service: it signs payments." if switch.is_signing else "Out of service: it signs nothing."


def _facts(switch: SignerSwitch) -> dict[str, str]:
    since = f"{switch.changed_at:%Y-%m-%d %H:%M:%S} UTC" if switch.changed_at else "the beginning"
    entry = AuditEntry.objects.filter(subject=_SUBJECT).first()
    return {
        "Policy signer": _state(switch),
        "Since": since,
        "By": switch.changed_by or "—",
        "Reason": (entry.reason if entry else "") or "—",
    }


def _stop(switch: SignerSwitch, _asked: Mapping[str, Any]) -> Proposal:
    if not switch.is_signing:
        raise OperationRefused("The policy signer is out of service already.")
    return Proposal(STOP_SIGNER, "signer", _SUBJECT, {}, list(_facts(switch).items()), "")


def _start(switch: SignerSwitch, _asked: Mapping[str, Any]) -> Proposal:
    if switch.is_signing or switch.changed_at is None:
        raise OperationRefused("The policy signer is in service.")
    arguments = {"stopped_at": switch.changed_at.isoformat()}
    return Proposal(START_SIGNER, "signer", _SUBJECT, arguments, list(_facts(switch).items()), "")


_STOP = Step(
    "Take the signer out of service",
    "From now on nothing is signed on any chain: payments that a policy would let pass are refused with the code 503, "
    "which is logged. What was signed before is settled all the same.",
    _stop,
    _facts,
    is_urgent=True,
)
_START = Step(
    "Put the signer back in service",
    "Payments are signed again at once, on all chains that are not stopped. First find out why it was taken out of "
    "service.",
    _start,
    _facts,
)
