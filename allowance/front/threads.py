"""The threads of a web process, called from its event loop. They live as long as the process."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


class Threads:
    """Some threads of which the one that was busy last is called first.

    Each keeps a connection to the database, and what a session needs that worked just now is in the processor's caches.
    Sessions that take turns cost PostgreSQL half as much again.
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
