"""The front of a web process: it takes whole requests, gives each a thread in its turn, and sends the answers.

Django is synchronous and waits for nobody outside: a client that is slow to send or to read costs a socket and a little
memory here, for so many seconds, and none of the threads that decide payments. ASGI in front, WSGI behind.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from allowance.api.environ import IS_STRANGER
from allowance.front.admission import THREADS, CallerQueue, CallerQueues
from allowance.front.incoming import Environ, Message, Receive, receive_request
from allowance.front.outgoing import PIECE_BYTES, Answer, Send, WsgiApplication, answer_to, send_answer
from allowance.front.sockets import drop_who_does_not_read
from allowance.kernel.errors import RateLimited


class Front:
    """The ASGI application. `too_many` answers what finds no place, in the event loop: it must be quick."""

    def __init__(self, application: WsgiApplication, too_many: Callable[[Environ], Answer]) -> None:
        self._application, self._too_many = application, too_many
        # They live as long as the process: each keeps its connection to the database.
        self._threads = ThreadPoolExecutor(THREADS, "request")
        self._probing = ThreadPoolExecutor(1, "probe")
        self._lines = CallerQueues()
        self._is_limited = False

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if not self._is_limited:  # it listens by now
            self._is_limited = True
            drop_who_does_not_read(int(scope["server"][1]))
        environ = await receive_request(scope, receive)
        if environ["PATH_INFO"].removesuffix("/") == "/healthz":  # needs no thread: it waits for nothing
            await send_answer(answer_to(self._application, environ), send)
            return
        try:
            await self._serve(environ, send)
        except RateLimited:
            await send_answer(self._too_many(environ), send)

    async def _serve(self, environ: Environ, send: Send) -> None:
        for is_first in (True, False):
            async with self._lines.join(environ) as line:
                is_to_go = is_first and line.is_of_strangers
                async with line.places:
                    answer = await self._ask(environ, line, is_to_go=is_to_go)
                self._lines.learn(environ, answer.caller)
            if not (is_to_go and answer.caller):
                break  # else it is known now who asks, and it is not yet the caller's turn
        # What has changed something is told in any case; and such an answer is small.
        if environ["REQUEST_METHOD"] == "GET" and len(answer.body) > PIECE_BYTES:
            async with self._lines.keep(line, len(answer.body)):
                await send_answer(answer, send)
        else:
            await send_answer(answer, send)

    async def _ask(self, environ: Environ, line: CallerQueue, *, is_to_go: bool) -> Answer:
        threads = self._probing if line.name == "probes" else self._threads
        asked = {**environ, IS_STRANGER: True} if is_to_go else environ
        return await asyncio.get_running_loop().run_in_executor(threads, answer_to, self._application, asked)
