"""Both faces of the client behind one: what is awaited is run to its end by an event loop in another thread."""

from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from allowance_client import Allowance, AsyncAllowance
from anyio.from_thread import start_blocking_portal

FACES = (Allowance, AsyncAllowance)


class Client:
    """A client of either face, whose methods block; a list is read to its end."""

    def __init__(self, face: type[Allowance] | type[AsyncAllowance], *arguments: Any, **options: Any) -> None:
        self._stack = ExitStack()
        self._portal = self._stack.enter_context(start_blocking_portal())
        self.client = face(*arguments, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._stack:
            self.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.client, name)

        async def run(arguments: Any, options: Any) -> Any:
            found = method(*arguments, **options)
            return [item async for item in found] if hasattr(found, "__aiter__") else await found

        def call(*arguments: Any, **options: Any) -> Any:
            if isinstance(self.client, AsyncAllowance):
                return self._portal.call(run, arguments, options)
            found = method(*arguments, **options)
            return list(found) if hasattr(found, "__next__") else found

        return call
