"""The Celery tasks of the back office."""

from celery import shared_task

from allowance.kernel.times import utc_now
from backoffice import rollups


@shared_task(ignore_result=True)
def roll_up() -> None:
    """Add up what the log has grown by."""
    rollups.roll_up(utc_now())
