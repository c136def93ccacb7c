"""Make the notices of an alarm, in the transaction of what they are about."""

from datetime import datetime

from backoffice.alarms.channels import Channel, channels_of
from backoffice.findings import find_kind
from backoffice.models import Alarm, Notice, Occasion
from foundation.console.links import row_page
from foundation.findings import OPERATIONS


def tell(alarm: Alarm, occasion: Occasion, now: datetime) -> None:
    """Let the roles whose errand an alarm is be told of it, over all their channels."""
    kind = find_kind(alarm.kind)
    Notice.objects.bulk_create(
        Notice(
            alarm=alarm, occasion=occasion, sentence=alarm.sentence, url=row_page("backoffice_alarm", alarm.pk),
            role=channel.role, channel=channel.name, made_at=now, next_at=now,
        )
        for role in (kind.told if kind else (OPERATIONS,)) for channel in channels_of(role)
    )  # fmt: skip
    alarm.told_at, alarm.told_count = now, alarm.count
    alarm.save(update_fields=["told_at", "told_count"])


def tell_as_a_test(channel: Channel, by: str, now: datetime) -> Notice:
    """Let a role be told over one of its channels that somebody tests it."""
    return Notice.objects.create(
        occasion=Occasion.TEST, sentence=f"{by} tests whether this arrives.", role=channel.role, channel=channel.name,
        made_at=now, next_at=now,
    )  # fmt: skip
