"""Raise an alarm for each cause that the work queue finds, and clear it once the cause is gone.

Rows are what is known: a look may run twice, late or not at all, in any process, and starts from the rows.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from django.db import DatabaseError, transaction

from backoffice.alarms.telling import tell
from backoffice.models import Alarm, Occasion
from backoffice.queue.items import Item, Severity
from backoffice.work_queue import FINDERS
from foundation.database import ALARM_LOCK, brief_read, lock_name
from foundation.kernel.repeated_logs import log_once_a_minute

log = logging.getLogger(__name__)

# What comes back within this time was not over. People are told that it is over after that.
CALM = timedelta(minutes=5)
# An alarm that nobody has acknowledged is told again after this.
REMINDED_AFTER = timedelta(hours=24)
Finder = Callable[[], list[Item]]


def look(now: datetime, finders: Sequence[Finder] = FINDERS) -> None:
    """Raise, update and clear alarms, and make the notices that tell people, in one transaction."""
    found, failed = _find(finders)
    with transaction.atomic():
        lock_name(ALARM_LOCK)
        known = {(alarm.kind, alarm.subject): alarm for alarm in Alarm.objects.filter(is_over=False)}
        for name, item in found:
            alarm = known.pop((item.kind, item.subject), None)
            if alarm is None:
                tell(_raise(name, item, now), Occasion.RAISED, now)
            else:
                _update(alarm, item, now)
        for alarm in known.values():
            if alarm.found_by not in failed:
                _clear(alarm, now)


def _find(finders: Sequence[Finder]) -> tuple[list[tuple[str, Item]], set[str]]:
    """Find the causes, each once; one finder that fails, which is a cause itself, does not hide what others find."""
    found: dict[tuple[str, str], tuple[str, Item]] = {}
    failed = set()
    for find in finders:
        name = find.__name__
        try:
            with brief_read():
                items = [item for item in find() if item.severity != Severity.INFO]
        except DatabaseError as error:
            log_once_a_minute(log, logging.ERROR, "%s failed.", name, exc_info=error, about=name)
            failed.add(name)
            items = [_of_failure(name)]
        found |= {(item.kind, item.subject): (name, item) for item in items}
    return list(found.values()), failed


def _of_failure(name: str) -> Item:
    what = name.removeprefix("find_").replace("_", " ")
    sentence = f"The database did not answer when it was looked for {what}: what there is of it may be older or newer."
    return Item(
        "looking", 1, sentence, "/console/", "Look at the console", Severity.WARNING, "backoffice.view_alarm",
        subject=name,
    )  # fmt: skip


def _raise(name: str, item: Item, now: datetime) -> Alarm:
    alarm = Alarm(kind=item.kind, subject=item.subject, found_by=name, raised_at=now)
    _fill(alarm, item)
    alarm.save()
    return alarm


def _update(alarm: Alarm, item: Item, now: datetime) -> None:
    """Take over what is known now of a cause that is still there, or is there again."""
    alarm.cleared_at = None
    # What had become less and grows again is news.
    alarm.told_count = min(alarm.told_count, item.count)
    _fill(alarm, item)
    # A person may acknowledge it meanwhile.
    alarm.save(update_fields=["cleared_at", "told_count", "severity", "sentence", "count", "url", "permission"])
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


def _fill(alarm: Alarm, item: Item) -> None:
    alarm.severity, alarm.sentence, alarm.count = item.severity, item.sentence, item.count
    alarm.url, alarm.permission = item.url, item.permission
