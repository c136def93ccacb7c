"""State that all processes of one worker share: whether the worker ends, and which process delivers.

The worker opens this before it forks its processes, and closes it when it ends.
"""

import fcntl
import mmap
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


class WorkerShifts:
    """A byte that says that the worker ends, and a file to lock. A process that is killed unlocks the file."""

    def __init__(self) -> None:
        self._ending = mmap.mmap(-1, 1)
        self._lock = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the worker runs

    def end(self) -> None:
        """Let the shifts of all processes end: nothing more is claimed."""
        self._ending[0] = 1

    def are_over(self) -> bool:
        """Tell whether the worker ends."""
        return self._ending[0] != 0

    @contextmanager
    def only_one(self) -> Iterator[bool]:
        """Give the block to one process at a time; False: another process of this worker is in it."""
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        try:
            yield True
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of both."""
        self._lock.close()
        self._ending.close()
