"""What Celery does on a channel that was closed under a running task: it sees a lost connection, and goes on."""

import logging

from django.conf import settings
from kombu import Connection

from tests.support.factories import new_name


def test_a_task_that_ends_after_the_broker_was_lost_does_not_end_the_worker(caplog):
    with Connection(settings.CELERY["broker_url"]) as connection, connection.SimpleQueue(new_name("queue")) as queue:
        queue.put("a task")
        message = queue.get(timeout=10)
        errors = connection.connection_errors
        # As Celery leaves it behind a connection that was lost.
        connection.transport.client = None
        assert message.channel is not None
        message.channel._disconnect_pools()

        # Of these errors Celery writes a line; any other ends the worker.
        message.ack_log_error(logging.getLogger(), errors)

        assert not message.acknowledged
        assert "This channel was closed" in caplog.text
