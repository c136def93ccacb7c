"""Celery's transports over Redis, mended: a channel that has been closed fails like one whose server is away.

kombu 5.7 fails with an AttributeError there, which nobody expects, and Celery 5.7 closes channels under tasks that are
still running when the broker is lost: the worker ended, now and then, instead of connecting again. What stood in its
queue and was no message ended it, too. And a worker all of whose processes were busy when the broker was lost stood
still for ever: it went on waiting for the acknowledgements that had failed, and did not look at its connection.
"""

import logging
from typing import Any

from kombu.transport.redis import Channel, QoS, SentinelChannel, SentinelTransport, Transport
from redis.exceptions import ConnectionError as NotConnected

from foundation.kernel.repeated_logs import log_once_a_minute

log = logging.getLogger(__name__)


class _Taken(QoS):
    """The messages that a worker has taken. One is done with, whether or not the broker hears so: rows tell, too."""

    _dirty: set[str]

    def ack(self, delivery_tag: str) -> None:
        try:
            super().ack(delivery_tag)
        finally:
            self._dirty.add(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:  # noqa: FBT001, FBT002 - kombu's signature
        try:
            super().reject(delivery_tag, requeue)
        finally:
            self._dirty.add(delivery_tag)


class _Mended:
    """What is added to a channel of kombu's."""

    QoS: Any = _Taken
    connection: Any

    def _connparams(self, asynchronous: bool = False) -> Any:  # noqa: FBT001, FBT002 - kombu's signature
        if self.connection is None or self.connection.client is None:
            raise NotConnected("This channel was closed when the broker was lost.")
        return super()._connparams(asynchronous)  # type: ignore[misc] # of kombu's channel

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[misc] # of kombu's channel
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            log_once_a_minute(
                log, logging.ERROR, "What is no message was dropped from a queue: %s", type(error).__name__
            )
            return True


class ServerChannel(_Mended, Channel):
    """A channel to one server."""


class GroupChannel(_Mended, SentinelChannel):
    """A channel to the master of a group."""


class ServerTransport(Transport):
    Channel = ServerChannel


class GroupTransport(SentinelTransport):
    Channel = GroupChannel


# By the scheme of a broker's URL, as kombu names them.
TRANSPORTS = {
    "redis": f"{__name__}:ServerTransport",
    "rediss": f"{__name__}:ServerTransport",
    "sentinel": f"{__name__}:GroupTransport",
}
