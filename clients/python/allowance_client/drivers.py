"""Run flows on httpx, blocking or awaited: all that touches the network or waits is here, and nothing else is."""

import time
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Self, TypeVar

import anyio
import httpx

from allowance_client.bodies import Body
from allowance_client.connections import Driver
from allowance_client.pages import Pages
from allowance_client.steps import Flow, Lost, Outcome, Request

T = TypeVar("T")
_FAILURES = (httpx.TransportError, httpx.StreamError)


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
