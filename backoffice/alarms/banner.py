"""The open alarms on every page of the console."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest

from backoffice.findings import FINDERS
from backoffice.models import Alarm
from foundation.findings import Severity

_MOST_SHOWN = 3
_RANKS = {finder.name: rank for rank, finder in enumerate(FINDERS)}


@dataclass
class OpenAlarms:
    """The open alarms that a reader may see, read by one query once a template asks."""

    reader: User | AnonymousUser

    @cached_property
    def all(self) -> list[Alarm]:
        """All of them, the worst first, so that many of one kind hide no worse one; of one kind the newest first."""
        if not self.reader.is_authenticated:
            return []
        alarms = Alarm.objects.filter(is_over=False, cleared_at=None).order_by("-id")
        order = list(Severity)
        return sorted(
            (alarm for alarm in alarms if self.reader.has_perm(alarm.permission)),
            key=lambda alarm: (order.index(Severity(alarm.severity)), _RANKS.get(alarm.found_by, len(_RANKS))),
        )

    @property
    def shown(self) -> list[Alarm]:
        """Those to name: the worst of what is wrong and nobody has acknowledged."""
        loud = [alarm for alarm in self.all if alarm.severity == Severity.ERROR and not alarm.acknowledged_by]
        return loud[:_MOST_SHOWN]

    @property
    def more(self) -> int:
        """How many others there are."""
        return len(self.all) - len(self.shown)


def open_alarms(request: HttpRequest) -> dict[str, Any]:
    """Give templates the alarms; those that do not ask for them cost nothing."""
    return {"open_alarms": OpenAlarms(getattr(request, "user", AnonymousUser()))}
