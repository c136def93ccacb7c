"""A connection that reads so much and no more: a receiver may send what it likes, but cannot keep us busy with it.

The 64 KiB that are read of a body do not bound what is no body: interim answers, headers, extensions of chunks.
"""

import asyncio
import functools

import aiohttp
from aiohttp.client_proto import ResponseHandler

_MOST_BYTES = 128 * 1024


class BoundedHandler(ResponseHandler):
    """Parses 128 KiB of what arrives and then stops reading for good: the rest waits in the network.

    Who has said nothing of use in so much is waited for like one who is silent, until the attempt's time is over. Of a
    long body there is enough in it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._left = _MOST_BYTES

    def data_received(self, data: bytes) -> None:
        taken = data[: self._left]
        self._left -= len(taken)
        if taken or not data:  # aiohttp itself gives nothing to have the parser go on with what it has
            super().data_received(taken)
        self._stop_if_full()

    def resume_reading(self, resume_parser: bool = True) -> None:  # noqa: FBT001, FBT002 - as aiohttp has it
        super().resume_reading(resume_parser)
        self._stop_if_full()

    def _stop_if_full(self) -> None:
        if not self._left and self.transport is not None:
            self.transport.pause_reading()


def bound(connector: aiohttp.BaseConnector) -> None:
    """Have every connection bounded that this connector makes from here on, in the loop that runs."""
    # aiohttp has no option for it, and no other place where all that arrives passes, decrypted, before it is parsed.
    connector._factory = functools.partial(BoundedHandler, loop=asyncio.get_running_loop())  # type: ignore[assignment] # noqa: SLF001
