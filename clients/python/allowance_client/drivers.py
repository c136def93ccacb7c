"""Run flows on httpx, blocking or awaited: all that touches the network or waits is here, and nothing else is."""

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Any, Generic, NoReturn, Self, TypeVar

import anyio
import httpx

from allowance_client.addresses import read_api_key, read_base_url
from allowance_client.bodies import Body
from allowance_client.exchanges import Patience
from allowance_client.operations import Operations, Pages
from allowance_client.steps import Flow, Lost, Outcome, Request

T = TypeVar("T")
Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)
VERSION = "0.2.0"
_CONNECT_S = 10.0
_FAILURES = (httpx.TransportError, httpx.StreamError)


class Driver(ABC, Generic[Http]):
    """What both drivers have: the address, the key, and how a request is put for httpx.

    `agent_id`: the agent that is meant where a call names none; None: that of the bound key. `http`: a client of yours,
    which stays open. `timeout_s`: for one answer. `patience_s`: for how long failures that stored nothing are repeated;
    0: never. `allow_http`: send the key to another machine over plain http, too.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        agent_id: str | None = None,
        http: Http | None = None,
        *,
        timeout_s: float = 20,
        patience_s: float = 60,
        allow_http: bool = False,
    ) -> None:
        self._base_url = read_base_url(base_url, allow_http=allow_http)
        self._authorization = f"Bearer {read_api_key(api_key)}"
        self._timeout_s = timeout_s
        self.operations = Operations(agent_id, Patience(patience_s))
        self._is_own = http is None
        # A proxy of the environment would read what goes over plain http, and is not meant for this machine.
        self._http: Http = self._open(trust_env=self._base_url.scheme == "https") if http is None else http

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._base_url}>"

    def __getstate__(self) -> NoReturn:
        raise TypeError("A client cannot be stored or copied: it holds an API key.")

    @abstractmethod
    def _open(self, *, trust_env: bool) -> Http: ...

    def _deadline(self, request: Request) -> float:
        """Set the moment by which an answer must be complete, however slowly it comes."""
        return time.monotonic() + self._timeout_s + request.extra_time_s

    def _arguments(self, request: Request) -> dict[str, Any]:
        time_s = self._timeout_s + request.extra_time_s
        return {
            "method": request.method,
            "url": f"{str(self._base_url).rstrip('/')}{request.path}",
            "params": dict(request.query) or None,
            "content": request.body,
            "headers": {
                "Accept": "application/json",
                "Accept-Encoding": "identity",  # so that a small answer stays small
                "Authorization": self._authorization,
                "User-Agent": f"allowance-client/{VERSION}",
                **request.headers,
            },
            "timeout": httpx.Timeout(time_s, connect=min(_CONNECT_S, time_s)),
            "follow_redirects": False,
            "auth": None,  # not what a given client would add
        }


class SyncDriver(Driver[httpx.Client]):
    """Runs flows blocking. Threads may share it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, unless they are somebody else's."""
        if self._is_own:
            self._http.close()

    def run(self, flow: Flow[T]) -> T:
        """Run a flow to its result."""
        outcome: Outcome = None
        while True:
            try:
                step = flow.send(outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Request):
                outcome = self._send(step)
            else:
                time.sleep(step.seconds)
                outcome = None

    def walk(self, pages: Pages[T]) -> Iterator[T]:
        """Go through all items of a list; a page is read when it is come to."""
        cursor, is_last = None, False
        while not is_last:
            page = self.run(pages.page(cursor))
            yield from page.items
            cursor, is_last = page.next_cursor, page.is_last(cursor)

    def _open(self, *, trust_env: bool) -> httpx.Client:
        return httpx.Client(trust_env=trust_env)

    def _send(self, request: Request) -> Outcome:
        deadline = self._deadline(request)
        try:
            with self._http.stream(**self._arguments(request)) as response:
                body = Body(response, deadline)
                if body.wants_more():
                    for chunk in response.iter_bytes():
                        body.add(chunk)
                        if not body.wants_more():
                            break
                return body.outcome()
        except _FAILURES as error:
            return Lost(_describe(error))


class AsyncDriver(Driver[httpx.AsyncClient]):
    """Runs flows awaited, on asyncio or trio. Tasks may share it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, unless they are somebody else's."""
        if self._is_own:
            await self._http.aclose()

    async def run(self, flow: Flow[T]) -> T:
        """Run a flow to its result."""
        outcome: Outcome = None
        while True:
            try:
                step = flow.send(outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Request):
                outcome = await self._send(step)
            else:
                await anyio.sleep(step.seconds)
                outcome = None

    async def walk(self, pages: Pages[T]) -> AsyncIterator[T]:
        """Go through all items of a list; a page is read when it is come to."""
        cursor, is_last = None, False
        while not is_last:
            page = await self.run(pages.page(cursor))
            for item in page.items:
                yield item
            cursor, is_last = page.next_cursor, page.is_last(cursor)

    def _open(self, *, trust_env: bool) -> httpx.AsyncClient:
        return httpx.AsyncClient(trust_env=trust_env)

    async def _send(self, request: Request) -> Outcome:
        deadline = self._deadline(request)
        try:
            async with self._http.stream(**self._arguments(request)) as response:
                body = Body(response, deadline)
                if body.wants_more():
                    async for chunk in response.aiter_bytes():
                        body.add(chunk)
                        if not body.wants_more():
                            break
                return body.outcome()
        except _FAILURES as error:
            return Lost(_describe(error))


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
