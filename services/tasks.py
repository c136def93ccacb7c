"""The alarm clock of webhooks. It may ring twice, late or not at all: rows are the queue, and beat rings again."""

from celery import shared_task

from services.webhooks.courier import Courier


@shared_task(ignore_result=True)
def deliver_webhooks() -> None:
    """Deliver what is due. Several workers may at once: each claims its own."""
    Courier().deliver()
