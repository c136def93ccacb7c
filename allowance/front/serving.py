"""The front of a web process: it takes whole requests, gives each a thread in its turn, and sends the answers.

Django is synchronous and waits for nobody outside: a client that is slow to send or to read costs a socket and a little
memory here, for so many seconds, and none of the threads that decide payments. ASGI in front, WSGI behind.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from allowance.api.environ import IS_STRANGER
from allowance.front.incoming import Environ, Message, Receive, receive_request
from allowance.front.lines import THREADS, Lines, is_probe
from allowance.front.outgoing import Answer, Send, WsgiApplication, answer_to, send_answer
from allowance.front.sockets import drop_who_does_not_read
from allowance.kernel.errors import RateLimited


class Front:
    """The ASGI application. `too_many` is WSGI, too, and answers what finds no place."""

    def __init__(self, application: WsgiApplication, too_many: WsgiApplication) -> None:
        self._application, self._too_many = application, too_many
        # They live as long as the process: each keeps its connection to the database.
        self._threads = ThreadPoolExecutor(THREADS, "request")
        self._probing = ThreadPoolExecutor(1, "probe")
        self._lines = Lines()
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
            while not await self._serve(environ, send):
                pass
        except RateLimited:
            await send_answer(answer_to(self._too_many, environ), send)

    async def _serve(self, environ: Environ, send: Send) -> bool:
        """Answer a request in its turn. False: now it is known who asks, and it is not yet the caller's turn."""
        async with self._lines.join(environ) as line:
            async with line.places:
                answer = await self._ask({**environ, IS_STRANGER: True} if line.is_of_strangers else environ)
            self._lines.learn(environ, answer.caller)
            if line.is_of_strangers and answer.caller:
                return False
            line.unsent_bytes += len(answer.body)
            try:
                await send_answer(answer, send)
            finally:
                line.unsent_bytes -= len(answer.body)
        return True

    async def _ask(self, environ: Environ) -> Answer:
        threads = self._probing if is_probe(environ) else self._threads
        return await asyncio.get_running_loop().run_in_executor(threads, answer_to, self._application, environ)
