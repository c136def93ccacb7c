"""The processes that settle payments or tell payees, as the Procfile starts them, and what processor time they take."""

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from django.conf import settings

from tests.support.servers import server_environment

_CELERY = (sys.executable, "-m", "celery", "--app", "allowance")
_WORKER = (*_CELERY, "worker", "--loglevel", "WARNING", "--without-gossip", "--without-mingle")
_BEAT = (*_CELERY, "beat", "--loglevel", "WARNING")
_PGRP, _UTIME, _STIME = 2, 11, 12  # fields of /proc/PID/stat behind the name, see proc_pid_stat(5)


class Workers:
    """One worker, by default the one that settles with four processes, and beat."""

    def __init__(self, queue: str = "celery", processes: int = 4) -> None:
        self._commands = ((*_WORKER, "--queues", queue, "--concurrency", str(processes)), _BEAT)

    def __enter__(self) -> Self:
        # Each in a group of its own, so that its processes can be told from others.
        self._processes = [
            subprocess.Popen(
                command,
                env=server_environment(),
                cwd=settings.BASE_DIR,
                start_new_session=True,
                stdout=subprocess.DEVNULL,  # Celery's banner
            )
            for command in self._commands
        ]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(timeout=60)

    def check(self) -> None:
        """See that they still run."""
        if any(process.poll() is not None for process in self._processes):
            raise RuntimeError("The worker or beat ended unexpectedly.")

    def processor_s(self) -> float:
        """Tell the processor time that they have used, in seconds; NaN where there is no /proc."""
        groups = {str(process.pid) for process in self._processes}
        ticks = [_ticks(path) for path in Path("/proc").glob("[0-9]*/stat") if _group(path) in groups]
        return sum(ticks) / os.sysconf("SC_CLK_TCK") if ticks else float("nan")


def _fields(path: Path) -> list[str]:
    try:
        return path.read_text().rpartition(") ")[2].split()
    except OSError:  # it has ended
        return []


def _group(path: Path) -> str:
    return next(iter(_fields(path)[_PGRP:]), "")


def _ticks(path: Path) -> int:
    return sum(map(int, _fields(path)[_UTIME : _STIME + 1]))
