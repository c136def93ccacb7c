"""The scheduler of the `beat` process: it sends no more tasks to a queue that no worker takes them from."""

import logging
import signal
import sys
from typing import Any

from celery import beat
from celery.beat import ScheduleEntry
from kombu import Connection, Producer
from kombu.exceptions import ChannelError

from foundation.environment.process_types import ProcessType
from foundation.heartbeats import beat as beat_heart

log = logging.getLogger(__name__)

# A queue with this many tasks, of 1 KB each, is sent no more. Redis drops an expired task only when a worker takes
# it: where no worker runs, a hundred thousand tasks a day would fill the broker of the other queues. With workers fewer
# wait, even while all of them are busy: a shift of webhooks is over after ten minutes, in which beat sends 600 tasks.
MOST_WAITING = 1_000


def end_when_told(service: beat.Service) -> None:
    """Let a scheduler that runs end when its process is told to: at the latest before what is due next.

    Celery leaves it by an exception alone, which Python drops if it comes while an object is freed, and before that
    closes the connections, whoever is using them.
    """

    def leave(*_: object) -> None:
        _answer(signal.SIG_IGN)  # told again in here, it would wait for a lock that it has
        service.stop()
        sys.exit()

    _answer(leave)


def _answer(handler: Any) -> None:
    for told in (signal.SIGTERM, signal.SIGINT):
        signal.signal(told, handler)


class Scheduler(beat.Scheduler):
    """Celery's scheduler without a database file, which sends nothing to a queue that is full.

    A task that is not sent is not sent later: the next one does the same.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._full: set[str] = set()
        self._asking: Connection | None = None
        self._channel: Any = None
        super().__init__(*args, **kwargs)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Run what is due; each time is a heartbeat."""
        pause_s: float = super().tick(*args, **kwargs)
        beat_heart(ProcessType.BEAT)
        return pause_s

    def apply_async(
        self,
        entry: ScheduleEntry,
        producer: Producer | None = None,
        advance: bool = True,  # noqa: FBT001, FBT002 - Celery's signature
        **kwargs: Any,
    ) -> Any:
        if self._takes_more(self._queue_of(entry)):
            return super().apply_async(entry, producer=producer, advance=advance, **kwargs)
        if advance:
            self.reserve(entry)
        return None

    def _queue_of(self, entry: ScheduleEntry) -> str:
        to = self.app.amqp.router.route(dict(entry.options or {}), str(entry.task), entry.args or (), entry.kwargs)
        return str(to["queue"].name)

    def _takes_more(self, queue: str) -> bool:
        try:
            waiting = self._waiting(queue)
        except self.connection.connection_errors:
            return True  # sending fails, logs that the broker is away and connects again
        takes_more = waiting < MOST_WAITING
        if not takes_more and queue not in self._full:
            log.warning("Queue %s: %d tasks wait, no more are sent. Does its worker run?", queue, waiting)
            self._full.add(queue)
        elif takes_more and queue in self._full:
            log.warning("Queue %s: tasks are sent again.", queue)
            self._full.remove(queue)
        return takes_more

    def _waiting(self, queue: str) -> int:
        # On a connection of its own: the producer's channel may be dead, and only a failure to send replaces it.
        try:
            if self._asking is None:
                self._asking = self.app.connection_for_write()
                self._channel = self._asking.channel()
            return int(self._channel.queue_declare(queue=queue, passive=True).message_count)
        except ChannelError:  # Redis keeps no empty queues
            return 0
        except self.connection.connection_errors:
            self._stop_asking()
            raise

    def close(self) -> None:
        """End it with its connections."""
        self._stop_asking()
        super().close()

    def _stop_asking(self) -> None:
        if self._asking is not None:
            self._asking.release()
            self._asking = self._channel = None
