"""The front of a web process: it collects requests, gives each a thread, and sends the answers. ASGI to WSGI.

Django is synchronous. A client that sends or reads slowly costs a socket and a little memory here, for some seconds,
and none of the threads that decide payments.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

from allowance.front.admission import THREADS, CallerQueue, CallerQueues
from allowance.front.incoming import (
    BODY_IS_LEFT,
    MOST_HEAD_BYTES,
    Environ,
    Message,
    Receive,
    count_head,
    read_environ,
    receive_request,
)
from allowance.front.measuring import measured
from allowance.front.outgoing import (
    PIECE_BYTES,
    Answer,
    Send,
    WsgiApplication,
    answer_to,
    closing,
    send_answer,
    send_pieces,
)
from allowance.front.sockets import drop_unread_connections
from foundation.api.environ import ARRIVED_AT, WORKED_ON
from foundation.kernel.errors import RateLimited

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")

# As the server itself answers what is far beyond.
_HEAD_TOO_LARGE = Answer(431, [(b"content-length", b"0")])


class Threads:
    """Some threads of which the one that was busy last is called first. They live as long as the process.

    Each keeps a connection to the database, and what a session needs that worked just now is in the processor's caches.
    At 8 connections this gives a tenth of the payments per second, at 32 nothing (docs/decisions/decide-together.md).
    """

    def __init__(self, count: int, name: str) -> None:
        self._idle = [ThreadPoolExecutor(1, f"{name}-{number}") for number in reversed(range(count))]
        self._places = asyncio.Semaphore(count)

    async def call(self, function: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
        """Call a function in a thread, once one is idle."""
        async with self._places:
            thread = self._idle.pop()
            try:
                return await asyncio.get_running_loop().run_in_executor(thread, function, *arguments)
            finally:
                self._idle.append(thread)


class Front:
    """The ASGI application.

    `find_caller` names whose credential a request bears, in a thread; "": it is not valid; None: nobody can tell.
    `too_many` answers requests that no queue takes, in the event loop: it must be quick.
    """

    def __init__(
        self,
        application: WsgiApplication,
        find_caller: Callable[[Environ], str | None],
        too_many: Callable[[Environ], Answer],
    ) -> None:
        self._application, self._find_caller, self._too_many = application, find_caller, too_many
        self._threads = Threads(THREADS, "request")
        self._probing = Threads(1, "probe")
        self._queues = CallerQueues()
        self._is_limited = False

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if not self._is_limited:  # it listens by now
            self._is_limited = True
            drop_unread_connections(int(scope["server"][1]))
        arrived_at = time.time()
        if count_head(scope) > MOST_HEAD_BYTES:
            await send_answer(_HEAD_TOO_LARGE, closing(measured(read_environ(scope), send)))
            return
        environ = await receive_request(scope, receive)
        environ[ARRIVED_AT] = arrived_at
        send = measured(environ, send)
        if environ.get(BODY_IS_LEFT):
            send = closing(send)
        if environ["PATH_INFO"].removesuffix("/") == "/healthz":  # needs no thread: it waits for nothing
            await send_answer(answer_to(self._application, environ), send)
            return
        try:
            await self._serve(scope, environ, send)
        except RateLimited:
            await send_answer(self._too_many(environ), send)

    async def _serve(self, scope: Message, environ: Environ, send: Send) -> None:
        await self._recognise(environ)
        with self._queues.join(environ) as queue:
            threads = self._probing if queue.name == "probes" else self._threads
            async with queue.threads:
                answer = await threads.call(answer_to, self._application, environ)
            if answer.caller != queue.name:
                self._queues.learn(environ, answer.caller)
        scope[WORKED_ON] = answer.worked_on
        if answer.pieces is not None:
            await self._send_pieces(answer, queue, send)
        # The answer to a request that changed something is sent in any case; such an answer is small.
        elif environ["REQUEST_METHOD"] == "GET" and len(answer.body) > PIECE_BYTES:
            with self._queues.keep(queue, len(answer.body)):
                await send_answer(answer, send)
        else:
            await send_answer(answer, send)

    async def _recognise(self, environ: Environ) -> None:
        """Learn in a shared queue whose key this is, before anything is done for them: nobody stays there for long."""
        if not self._queues.is_of_unknown_key(environ):
            return
        with self._queues.join(environ) as queue:
            async with queue.threads:
                if self._queues.is_of_unknown_key(environ):  # nobody has told meanwhile
                    self._queues.learn(environ, await self._threads.call(self._find_caller, environ))

    async def _send_pieces(self, answer: Answer, queue: CallerQueue, send: Send) -> None:
        pieces = iter(answer.pieces)

        async def make() -> bytes | None:
            async with queue.threads:  # for one piece: while its reader takes it, the thread is free
                piece: bytes | None = await self._threads.call(next, pieces, None)
                return piece

        try:
            await send_pieces(answer, make, send)
        finally:
            await self._threads.call(answer.pieces.close)
