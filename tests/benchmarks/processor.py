"""The processor time and the memory of the servers' processes, as /proc tells them."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.load import Load

_PPID, _UTIME, _STIME, _CUTIME, _CSTIME = 1, 11, 12, 13, 14  # fields of /proc/PID/stat behind the name, see proc(5)
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Costs:
    """A load, and the processor milliseconds that each part of the machine used for one answer of it."""

    load: Load
    ms_each: dict[str, float]


def measure_costs(servers: Mapping[str, int], drive: Callable[[], Load]) -> Costs:
    """Drive a load; tell what each server used for each answer, by name, and the load generator.

    `servers` has the id of each server's first process; those that it started count as well.
    """
    before = {name: family_s(pid) for name, pid in servers.items()}
    load = drive()
    answers = len(load.latencies_ms)
    used_s = {name: family_s(pid) - before[name] for name, pid in servers.items()}
    used_s["load generator"] = load.generator_s
    return Costs(load, {name: round(1000 * seconds / answers, 3) for name, seconds in used_s.items()})


def family_s(pid: int) -> float:
    """Tell the processor time of a process and all that it started, also of those that have ended, in seconds."""
    own = _fields(pid)[_UTIME : _CSTIME + 1]
    children = [_fields(child)[_UTIME : _STIME + 1] for child in children_of(pid)]
    return sum(int(ticks) for fields in (own, *children) for ticks in fields) / _TICKS_PER_S


def children_of(pid: int) -> list[int]:
    """List the processes that a process started and that still run."""
    every = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return sorted(one for one in every if _fields(one)[_PPID : _PPID + 1] == [str(pid)])


def parent_of(pid: int) -> int:
    return int(_fields(pid)[_PPID])


def resident_mib(pid: int) -> float:
    """Tell the resident memory of a process in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def web_processes(pid: int) -> list[int]:
    """List the processes of a web server that answer requests; another child of it watches over shared memory."""
    return [one for one in children_of(pid) if b"resource_tracker" not in Path(f"/proc/{one}/cmdline").read_bytes()]


def _fields(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:  # it has ended
        return []
