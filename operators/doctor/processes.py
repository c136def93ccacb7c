"""Look at the processes, by the signs of life that each leaves in Redis."""

from collections import defaultdict
from collections.abc import Iterator

from foundation.environment.process_types import ProcessType
from foundation.heartbeats import AWAY_AFTER_S, Heartbeat, read_heartbeats
from operators.doctor.diagnoses import Diagnosis, error, ok, warning

_TYPES = (ProcessType.WEB, ProcessType.WORKER, ProcessType.WEBHOOKS, ProcessType.BEAT)


def find_silent_processes() -> Iterator[Diagnosis]:
    """See that each type runs, and beat once."""
    of_type: dict[ProcessType, list[Heartbeat]] = defaultdict(list)
    for one in read_heartbeats():
        of_type[one.process].append(one)
    for process in _TYPES:
        alive = [one for one in of_type[process] if one.age_s <= AWAY_AFTER_S]
        if not alive:
            last = min((one.age_s for one in of_type[process]), default=None)
            since = "in the last hour" if last is None else f"for {last:.0f} s"
            says = f"No sign of life of {process} {since}."
            yield error(process, says, f"Start {process}, as the Procfile has it: docs/operate/processes.md")
        elif process is ProcessType.BEAT and len(alive) > 1:
            names = ", ".join(sorted(one.name for one in alive))
            yield warning(process, f"{len(alive)} run ({names}): every task is sent as often.", "Stop all but one")
        else:
            yield ok(process, f"{len(alive)} give signs of life.")


def find_mixed_versions() -> Iterator[Diagnosis]:
    """See that all processes are of one release; while one is being deployed, they are not."""
    alive = [one for one in read_heartbeats() if one.age_s <= AWAY_AFTER_S]
    versions = sorted({one.version for one in alive})
    if len(versions) > 1:
        of = "; ".join(f"{one.process} {one.name}: {one.version}" for one in alive)
        yield warning(
            "versions",
            f"Processes of several releases run. {of}",
            "Restart those of the earlier one: docs/operate/upgrading.md",
        )
    else:
        yield ok("versions", f"All are of one release{': ' + versions[0] if versions else ''}.")
