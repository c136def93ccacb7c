"""The processes that settle payments or tell payees, as the Procfile has them, and what processor time they take."""

import os
from pathlib import Path
from typing import Self

from tests.support.house import House

_PGRP, _UTIME, _STIME = 2, 11, 12  # fields of /proc/PID/stat behind the name, see proc_pid_stat(5)


class Workers(House):
    """One worker, by default the one that settles with four processes, and beat."""

    def __init__(self, kind: str = "worker", processes: int = 4) -> None:
        super().__init__()
        self._kind = kind
        self._concurrency = str(processes)

    def __enter__(self) -> Self:
        quiet = ("--loglevel", "WARNING")
        self.start(self._kind, *quiet, WORKER_CONCURRENCY=self._concurrency, WEBHOOK_CONCURRENCY=self._concurrency)
        self.start("beat")
        return self

    def processor_s(self) -> float:
        """Tell the processor time that they have used, in seconds; NaN where there is no /proc."""
        groups = {str(self.pid(name)) for name in self.names()}
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
