"""Claims on the servers: a shared lock per process, which the kernel releases however the process ends."""

import fcntl
import os
from pathlib import Path


class Lease:
    """A process's claim on the servers. Forked children share their parent's claim."""

    def __init__(self, path: Path) -> None:
        """Take the claim. Any number of processes can hold one at a time."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)
        self.holder = os.getpid()

    def is_last(self) -> bool:
        """Whether no other process has a claim. Ask under the lock that claims are taken under.

        If it is not the last, this claim is gone afterwards: flock releases it to try.
        """
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Give the claim up."""
        os.close(self._descriptor)
