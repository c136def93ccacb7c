"""Send notices, at most so many messages in an hour: what goes beyond waits for one message with all of it.

A kind of alarm that nobody was told of in that hour does not wait: whoever raises many of one kind delays no other.

A notice is marked before it is sent and again afterwards. A process that dies in between leaves it as `sending`; it is
then sent again, perhaps for the second time: at least once, and never twice knowingly.
"""

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from backoffice.alarms.channels import Channel, NotSent, send
from backoffice.alarms.texts import Line
from backoffice.findings import find_kind
from backoffice.models import Notice, NoticeState, Occasion
from foundation.database import ALARM_LOCK, lock_name
from foundation.kernel.times import utc_now

MOST_PER_HOUR = 12
# After the first attempt; then it has failed.
_PAUSES = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 15, 60, 240))
# Longer than any attempt takes: whoever claimed a notice then has died.
_ABANDONED_AFTER = timedelta(minutes=2)
_MOST_TOGETHER = 1_000


def send_due(now: datetime | None = None) -> None:
    """Send what is due. Several workers may do so at once: each claims its own."""
    now = now or utc_now()
    abandoned = Notice.objects.filter(state=NoticeState.SENDING, claimed_at__lte=now - _ABANDONED_AFTER)
    abandoned.update(state=NoticeState.WAITING, leader=None)
    due = Notice.objects.filter(state=NoticeState.WAITING, next_at__lte=now)
    for channel in [Channel(*pair) for pair in due.order_by().values_list("role", "channel").distinct()]:
        while (claimed := _claim(channel, now)) and _send(channel, claimed):
            pass


def _claim(channel: Channel, now: datetime) -> list[Notice]:
    """Claim what the next message of a channel tells: a notice, or in the last message of an hour all that wait."""
    of_channel = Notice.objects.filter(role=channel.role, channel=channel.name)
    with transaction.atomic():
        lock_name(ALARM_LOCK, f"{channel.role} {channel.name}")
        waiting = of_channel.filter(state=NoticeState.WAITING, next_at__lte=now).order_by("id")
        rows = list(waiting.select_for_update(skip_locked=True)[:_MOST_TOGETHER])
        tests = [row for row in rows if row.occasion == Occasion.TEST]
        left = MOST_PER_HOUR - _count_messages(of_channel, now)
        claimed = tests[:1] or (rows if left == 1 else rows[:1] if left > 1 else _of_other_kinds(rows, of_channel, now))
        for row in claimed:
            row.state, row.claimed_at, row.attempts = NoticeState.SENDING, now, row.attempts + 1
            row.leader = None if row is claimed[0] else claimed[0]
        Notice.objects.bulk_update(claimed, ["state", "claimed_at", "attempts", "leader"])
    return claimed


def _count_messages(of_channel: "QuerySet[Notice]", now: datetime) -> int:
    return _sent_lately(of_channel, now).filter(leader=None).count()


def _of_other_kinds(rows: list[Notice], of_channel: "QuerySet[Notice]", now: datetime) -> list[Notice]:
    """Choose the first notice of a kind of alarm of which no message of the last hour told."""
    told = {_kind_of(notice) for notice in _sent_lately(of_channel, now).select_related("alarm")}
    return [row for row in rows if _kind_of(row) not in told][:1]


def _sent_lately(of_channel: "QuerySet[Notice]", now: datetime) -> "QuerySet[Notice]":
    """Choose what messages of the last hour told; tests do not count, which a person sends."""
    lately = of_channel.filter(claimed_at__gt=now - timedelta(hours=1)).exclude(occasion=Occasion.TEST)
    return lately.filter(Q(state=NoticeState.SENT) | Q(state=NoticeState.SENDING))


def _kind_of(notice: Notice) -> str:
    return notice.alarm.kind if notice.alarm else ""


def _send(channel: Channel, claimed: list[Notice]) -> bool:
    """Send one message, and record what became of it; tells whether it got out."""
    try:
        send(channel, [_line(notice) for notice in claimed])
    except NotSent as failure:
        for notice in claimed:
            _put_off(notice, str(failure))
        return False
    _of(claimed).update(state=NoticeState.SENT, sent_at=utc_now(), trouble="")
    return True


def _put_off(notice: Notice, trouble: str) -> None:
    """Let a notice be sent again later, unless that was tried often enough; a test is not: its author waits for it."""
    after: dict[str, Any] = {"state": NoticeState.FAILED}
    if notice.attempts <= len(_PAUSES) and notice.occasion != Occasion.TEST and notice.claimed_at is not None:
        next_at = notice.claimed_at + _PAUSES[notice.attempts - 1]
        after = {"state": NoticeState.WAITING, "leader": None, "next_at": next_at}
    _of([notice]).update(trouble=trouble, **after)


def _of(claimed: list[Notice]) -> "QuerySet[Notice]":
    """Choose what is claimed, unless somebody else has taken it over since."""
    return Notice.objects.filter(
        pk__in=[notice.pk for notice in claimed], state=NoticeState.SENDING, claimed_at=claimed[0].claimed_at
    )


def _line(notice: Notice) -> Line:
    link = f"{settings.CONSOLE_URL}{notice.url}" if settings.CONSOLE_URL and notice.url else ""
    return Line(notice.get_occasion_display(), notice.sentence, link, _advice_of(notice))


def _advice_of(notice: Notice) -> tuple[str, ...]:
    """Say what it means and what to do, unless it is over."""
    kind = find_kind(notice.alarm.kind) if notice.alarm else None
    if kind is None or notice.occasion == Occasion.OVER:
        return ()
    return f"What it means: {kind.means}", f"What to do: {kind.mend}"
