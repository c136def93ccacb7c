"""The console's page of alarms. That of notices is in `backoffice.alarms.pages`."""

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import F, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html

from backoffice.alarms.forms import AcknowledgementForm
from backoffice.alarms.operations import acknowledge_alarm
from backoffice.alarms.shown_advice import kind_of, say_when_told, write_links
from backoffice.models import Alarm
from foundation.console.columns import badge, instant, number, text
from foundation.console.confirmation import Shown, confirm
from foundation.console.pages import ReadOnlyAdmin


class StateFilter(admin.SimpleListFilter):
    title = "state"
    parameter_name = "state"
    states = {
        "open": Q(cleared_at=None),
        "acknowledged": Q(cleared_at=None) & ~Q(acknowledged_by=""),
        "cleared": ~Q(cleared_at=None),
    }

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        return [(state, state.capitalize()) for state in self.states]

    def queryset(self, _request: HttpRequest, queryset: QuerySet[Alarm]) -> QuerySet[Alarm]:
        return queryset.filter(self.states.get(self.value() or "", Q()))


@admin.register(Alarm)
class AlarmAdmin(ReadOnlyAdmin):
    """Shows each person the alarms whose subject they may see."""

    list_display = (
        "what", badge("severity"), "state", number("count"), instant("raised_at"), instant("cleared_at"),
        "acknowledged_by",
    )  # fmt: skip
    list_filter = (StateFilter, "severity")
    search_fields = ("sentence",)
    search_help_text = "A part of what an alarm says."
    # The worst of what is open first, what is cleared last. By its letters an error comes before a warning.
    ordering: ClassVar[Any] = (F("cleared_at").desc(nulls_first=True), "severity", "-id")
    fieldsets = (
        (None, {"fields": ("what", "means", "to_do", "pages")}),
        (
            "Since when, and who knows of it",
            {
                "fields": (
                    badge("severity"), "state", number("count"), instant("raised_at"), instant("cleared_at"), "told",
                    "acknowledged_by", instant("acknowledged_at"), text("acknowledgement"),
                )
            },
        ),
    )  # fmt: skip
    actions = ("acknowledge",)

    def is_possible(self, action: str, row: Any) -> bool:
        return row.cleared_at is None and not row.acknowledged_by

    def get_queryset(self, request: HttpRequest) -> QuerySet[Alarm]:
        alarms = super().get_queryset(request)
        needed = Alarm.objects.order_by().values_list("permission", flat=True).distinct()
        return alarms.filter(permission__in=[one for one in needed if request.user.has_perm(one)])

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        alarm: Any = super().get_object(request, object_id, from_field)
        if alarm is not None:
            alarm.reader = request.user
        return alarm

    @admin.display(description="look at")
    def pages(self, alarm: Any) -> str:
        return write_links(alarm, alarm.reader)

    @admin.display(description="what happened")
    def what(self, alarm: Alarm) -> str:
        return format_html("<bdi>{}</bdi>", alarm.sentence)

    @admin.display(description="state")
    def state(self, alarm: Alarm) -> str:
        state = "acknowledged" if alarm.acknowledged_by else "open"
        return format_html('<span class="badge {0}">{0}</span>', "cleared" if alarm.cleared_at else state)

    @admin.display(description="what it means")
    def means(self, alarm: Alarm) -> str:
        return kind_of(alarm).means

    @admin.display(description="what to do")
    def to_do(self, alarm: Alarm) -> str:
        return kind_of(alarm).mend

    @admin.display(description="last told")
    def told(self, alarm: Alarm) -> str:
        return say_when_told(alarm)

    @admin.action(description="Acknowledge … (no more reminders)", permissions=["operate"])
    def acknowledge(self, request: HttpRequest, alarms: QuerySet[Alarm]) -> HttpResponse | None:
        form = AcknowledgementForm(request.POST if "reason" in request.POST else None)
        if form.is_valid():
            by, reason = request.user.get_username(), form.cleaned_data["reason"]
            ids = [str(alarm.pk) for alarm in alarms]
            self.perform(request, ids, lambda pk: acknowledge_alarm(int(pk), by=by, reason=reason), "Acknowledged:")
            return None
        why = (
            "You say that you deal with it. It stays open until its cause is gone, but nobody is reminded of it, and "
            "it is not named at the top of every page any more. If it grows, people are told."
        )
        rows = [Shown(str(alarm.pk), alarm.sentence, _facts(alarm)) for alarm in alarms]
        return confirm(self, request, action="acknowledge", title="Acknowledge", explanation=why, rows=rows, form=form)


def _facts(alarm: Alarm) -> dict[str, Any]:
    return {"Raised": f"{alarm.raised_at:%Y-%m-%d %H:%M:%S} UTC", "Last told": say_when_told(alarm)}
