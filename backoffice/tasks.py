"""The Celery tasks of the back office."""

from celery import shared_task

from backoffice import rollups
from backoffice.alarms.looking import look
from backoffice.alarms.sending import send_due
from foundation.kernel.times import utc_now
from staff.change_requests import expire


@shared_task(ignore_result=True)
def roll_up() -> None:
    """Add up what the log has grown by."""
    rollups.roll_up(utc_now())


@shared_task(ignore_result=True)
def look_for_alarms() -> None:
    """Raise and clear alarms, and end the requests for a second person whose time is over."""
    expire()
    look(utc_now())


@shared_task(ignore_result=True)
def send_notices() -> None:
    """Tell people of alarms."""
    send_due()
