"""Raise an alarm for each cause that the work queue finds, and clear it once the cause is gone.

Rows are what is known: a look may run twice, late or not at all, in any process, and starts from the rows.
"""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction

from backoffice.alarms.telling import tell
from backoffice.findings import LOOKING, OF_STAFF, find_errands
from backoffice.models import Alarm, Occasion
from foundation.database import ALARM_LOCK, lock_name
from foundation.findings import Finder, Finding, Severity

log = logging.getLogger(__name__)

# What comes back within this time was not over. People are told that it is over after that.
CALM = timedelta(minutes=5)
_FOUND = ("found_by", "severity", "sentence", "count", "url", "permission")
# An alarm that nobody has acknowledged is told again after this.
REMINDED_AFTER = timedelta(hours=24)


def look(now: datetime, finders: Sequence[Finder] = OF_STAFF) -> None:
    """Raise, update and clear alarms, and make the notices that tell people, in one transaction."""
    found, failed = _find(finders)
    with transaction.atomic():
        lock_name(ALARM_LOCK)
        known = {(alarm.kind, alarm.subject): alarm for alarm in Alarm.objects.filter(is_over=False)}
        for name, finding in found:
            alarm = known.pop((finding.kind.name, finding.subject), None)
            if alarm is None:
                tell(_raise(name, finding, now), Occasion.RAISED, now)
            else:
                _update(alarm, name, finding, now)
        for alarm in known.values():
            if alarm.found_by not in failed:
                _clear(alarm, now)


def _find(finders: Sequence[Finder]) -> tuple[list[tuple[str, Finding]], set[str]]:
    """Find the causes, each once; one finder that fails, which is a cause itself, does not hide what others find."""
    found: dict[tuple[str, str], tuple[str, Finding]] = {}
    failed = set()
    for finder in finders:
        findings = [one for one in find_errands(finder) if one.severity != Severity.INFO]
        if any(one.kind is LOOKING for one in findings):
            failed.add(finder.name)
        found |= {(one.kind.name, one.subject): (finder.name, one) for one in findings}
    return list(found.values()), failed


def _raise(name: str, finding: Finding, now: datetime) -> Alarm:
    alarm = Alarm(kind=finding.kind.name, subject=finding.subject, raised_at=now)
    _fill(alarm, name, finding)
    alarm.save()
    return alarm


def _update(alarm: Alarm, name: str, finding: Finding, now: datetime) -> None:
    """Take over what is known now of a cause that is still there, or is there again."""
    alarm.cleared_at = None
    # What had become less and grows again is news.
    alarm.told_count = min(alarm.told_count, finding.count)
    _fill(alarm, name, finding)
    # A person may acknowledge it meanwhile.
    alarm.save(update_fields=["cleared_at", "told_count", *_FOUND])
    if alarm.count > alarm.told_count:
        tell(alarm, Occasion.GROWN, now)
    elif not alarm.acknowledged_by and alarm.told_at is not None and alarm.told_at <= now - REMINDED_AFTER:
        tell(alarm, Occasion.REMINDER, now)


def _clear(alarm: Alarm, now: datetime) -> None:
    if alarm.cleared_at is None:
        Alarm.objects.filter(pk=alarm.pk).update(cleared_at=now)
    elif alarm.cleared_at <= now - CALM:
        Alarm.objects.filter(pk=alarm.pk).update(is_over=True)
        tell(alarm, Occasion.OVER, now)


def _fill(alarm: Alarm, name: str, finding: Finding) -> None:
    alarm.found_by, alarm.severity, alarm.sentence, alarm.count = name, finding.severity, finding.says, finding.count
    alarm.url, alarm.permission = finding.page.url, finding.page.permission
