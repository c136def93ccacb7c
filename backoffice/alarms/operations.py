"""What people do about alarms: acknowledge one, and test whether notices arrive."""

from django.db import transaction

from backoffice.alarms.channels import GROUPS, channels_of
from backoffice.alarms.telling import tell_as_a_test
from backoffice.models import Alarm, Notice
from foundation.kernel.blanks import is_blank
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from staff.audit import record


def acknowledge_alarm(alarm_id: int, *, by: str, reason: str) -> Alarm:
    """Take an alarm upon oneself: it is not told again, nor shown at the top of every page.

    Raises:
        OperationRefused: no such alarm, it is over, somebody has acknowledged it already, or there is no reason.
    """
    if is_blank(reason):
        raise OperationRefused("Say what is being done about it.")
    with transaction.atomic():
        alarm = Alarm.objects.select_for_update().filter(pk=alarm_id).first()
        if alarm is None or alarm.cleared_at is not None:
            raise OperationRefused("There is no such alarm any more.")
        if alarm.acknowledged_by:
            raise OperationRefused(f"{alarm.acknowledged_by} has acknowledged it already.")
        alarm.acknowledged_by, alarm.acknowledged_at, alarm.acknowledgement = by, utc_now(), reason
        alarm.save(update_fields=["acknowledged_by", "acknowledged_at", "acknowledgement"])
        record(
            "alarm.acknowledged", subject_type="alarm", subject=str(alarm.pk), by=by, reason=reason,
            after={"alarm": alarm.sentence},
        )  # fmt: skip
    return alarm


def try_channels(role: str, *, by: str) -> list[Notice]:
    """Let a role be told, over each of its channels, that somebody tests them.

    Raises:
        OperationRefused: no such role, or it has no channel.
    """
    channels = channels_of(role) if role in GROUPS else []
    if not channels:
        raise OperationRefused("Nothing is configured by which this role could be told.")
    with transaction.atomic():
        notices = [tell_as_a_test(channel, by, utc_now()) for channel in channels]
        names = [channel.name for channel in channels]
        record("notices.tested", subject_type="role", subject=role, by=by, after={"channels": names})
    return notices
