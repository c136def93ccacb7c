"""The clock of the `beat` process: it stops ringing for those who do not listen."""

import logging
from typing import Any

from celery import beat
from celery.beat import ScheduleEntry
from kombu import Producer
from kombu.exceptions import ChannelError

log = logging.getLogger(__name__)

# Rings, of 1 KB each, that wait in a queue before no more are sent. Redis drops a ring that has expired only when
# somebody takes it: where no worker runs, a hundred thousand a day would fill the broker of those that do. With workers
# fewer wait, even while all of them are busy: a shift of webhooks is over after ten minutes, which are 600 rings.
MOST_UNHEARD = 1_000


class Scheduler(beat.Scheduler):
    """Celery's scheduler without a database file, which sends nothing to a queue that is full of unheard rings.

    What is not sent is not made up for: the next ring says the same.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._unheard: set[str] = set()
        super().__init__(*args, **kwargs)

    def apply_async(
        self,
        entry: ScheduleEntry,
        producer: Producer | None = None,
        advance: bool = True,  # noqa: FBT001, FBT002 - Celery's signature
        **kwargs: Any,
    ) -> Any:
        if self._is_heard(self._queue_of(entry)):
            return super().apply_async(entry, producer=producer, advance=advance, **kwargs)
        if advance:
            self.reserve(entry)
        return None

    def _queue_of(self, entry: ScheduleEntry) -> str:
        to = self.app.amqp.router.route(dict(entry.options or {}), str(entry.task), entry.args or (), entry.kwargs)
        return str(to["queue"].name)

    def _is_heard(self, queue: str) -> bool:
        try:
            waiting = self._waiting(queue)
        except self.connection.connection_errors:
            return True  # who sends finds out that the broker is away, says so and connects again
        is_heard = waiting < MOST_UNHEARD
        if not is_heard and queue not in self._unheard:
            log.warning("Queue %s: %d rings wait unheard, no more are sent. Does its worker run?", queue, waiting)
            self._unheard.add(queue)
        elif is_heard and queue in self._unheard:
            log.warning("Queue %s: its rings are heard again.", queue)
            self._unheard.remove(queue)
        return is_heard

    def _waiting(self, queue: str) -> int:
        # On a connection of its own: the producer's channel may be dead, and only a failure to send replaces it.
        with self.app.connection_for_write() as connection:
            channel: Any = connection.channel()
            try:
                return int(channel.queue_declare(queue=queue, passive=True).message_count)
            except ChannelError:  # Redis keeps no empty queues
                return 0
