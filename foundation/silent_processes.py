"""Find the processes that give no sign of life, and those of which there are too many."""

from collections import defaultdict
from collections.abc import Iterator

from foundation.environment.process_types import ProcessType
from foundation.findings import Finder, Finding, Kind, Page, Severity
from foundation.heartbeats import Heartbeat, read_heartbeats

SILENT = Kind(
    "processes",
    "Without `worker` and `beat` approved payments wait, and new ones are soon answered 503; without `webhooks` payees "
    "are told late, and payments go on.",
    "Start it, as the Procfile has it: docs/operate/processes.md",
    "operate/processes", told=(),
)  # fmt: skip
SCHEDULERS = Kind(
    "schedulers",
    "Every task is sent as often as there are processes of `beat`.",
    "Stop all of them but one",
    "operate/processes", told=(),
)  # fmt: skip
_TYPES = (ProcessType.WEB, ProcessType.WORKER, ProcessType.WEBHOOKS, ProcessType.BEAT)
# Payees are told later while `webhooks` is away; payments go on.
NEEDED_BY_PAYMENTS = (ProcessType.WORKER, ProcessType.BEAT)
_ALARMS = Page("Look at alarms", "backoffice_alarm")


def find_silent_processes() -> Iterator[Finding]:
    """See that each type runs, and `beat` once.

    Raises:
        redis.RedisError: nobody knows.
    """
    of_type: dict[ProcessType, list[Heartbeat]] = defaultdict(list)
    for one in read_heartbeats():
        of_type[one.process].append(one)
    for process in _TYPES:
        alive = [one for one in of_type[process] if one.is_lately]
        if not alive:
            yield _of_silent(process, of_type[process])
        elif process is ProcessType.BEAT and len(alive) > 1:
            names = ", ".join(sorted(one.name for one in alive))
            says = f"{len(alive)} processes of {process} run ({names}): every task is sent as often."
            yield Finding(SCHEDULERS, Severity.WARNING, says, _ALARMS, process, len(alive))


def _of_silent(process: ProcessType, silent: list[Heartbeat]) -> Finding:
    since = f"for {min(one.age_s for one in silent):.0f} s" if silent else "in the last hour"
    word = "has been away" if silent else "has not been seen"
    says = f"No sign of life of {process} {since}."
    unready = word if process in NEEDED_BY_PAYMENTS else ""
    return Finding(SILENT, Severity.ERROR, says, _ALARMS, process, unready=unready)


FINDERS = (Finder(find_silent_processes, (SILENT, SCHEDULERS), is_quick=True),)
