"""Kill a server as a power cut would: the process, and all that it started."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

_POLL_S = 0.02


def wait_until(condition: Callable[[], Any], what: str, patience_s: float = 60, *, poll_s: float = _POLL_S) -> Any:
    """Wait for something to be true and return it.

    Raises:
        TimeoutError: it did not become true; names what.
    """
    deadline = time.monotonic() + patience_s
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"Waited {patience_s:g} s in vain: {what}.")
        time.sleep(poll_s)
    return found


def kill_with_children(pid: int, name: str) -> None:
    """Kill a server and its children with -9; returns when the children are gone."""
    # First it is stopped where it stands: a child that it had meanwhile would be overlooked, and outlive it.
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: _read_stat(pid)[:1] in (["T"], []), f"the {name} stands still")
    started = children(pid)
    for one in (pid, *started):
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    # Buried, too: a PostgreSQL takes the pid of one that is dead and not buried for a living one.
    wait_until(lambda: not any(map(_exists, started)), f"the children of the {name} are gone")


def is_gone(pid: int) -> bool:
    """Tell whether a process is dead and buried."""
    return not _exists(pid)


def children(pid: int) -> list[int]:
    """List what a process has started, and what still runs."""
    if not Path("/proc/self/stat").exists():
        return []
    everybody = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return [one for one in everybody if _read_stat(one)[1:2] == [str(pid)]]


def _read_stat(pid: int) -> list[str]:
    """Read what Linux tells of a process behind its name: its state, its parent and so on; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
