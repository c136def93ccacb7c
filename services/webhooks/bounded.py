"""A connection that reads at most 128 KiB: a receiver cannot keep us busy by sending more.

Reading 64 KiB of a body does not bound what comes beside it: interim answers, headers, extensions of chunks.
"""

import asyncio
import functools

import aiohttp
from aiohttp.client_proto import ResponseHandler

_MOST_BYTES = 128 * 1024


class BoundedHandler(ResponseHandler):
    """Parses 128 KiB of what arrives and then stops reading for good: the rest waits in the network.

    A receiver that sends 128 KiB without a usable answer is treated as silent until the timeout. Of a long body, enough
    is within the bound.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._left = _MOST_BYTES

    def data_received(self, data: bytes) -> None:
        taken = data[: self._left]
        self._left -= len(taken)
        if taken or not data:  # aiohttp passes b"" to let the parser continue with what it has
            super().data_received(taken)
        self._stop_if_full()

    def resume_reading(self, resume_parser: bool = True) -> None:  # noqa: FBT001, FBT002 - as aiohttp has it
        super().resume_reading(resume_parser)
        self._stop_if_full()

    def _stop_if_full(self) -> None:
        if not self._left and self.transport is not None:
            self.transport.pause_reading()


def bound(connector: aiohttp.BaseConnector) -> None:
    """Bound every connection that this connector makes from here on, in the running loop."""
    # aiohttp has no option for this, and all decrypted bytes pass through no other place before they are parsed.
    connector._factory = functools.partial(BoundedHandler, loop=asyncio.get_running_loop())  # type: ignore[assignment] # noqa: SLF001
