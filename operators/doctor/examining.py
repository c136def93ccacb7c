"""Carry the checks out, one after the other. Whatever one of them meets, the others go on."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import nullcontext

import redis
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError

from chains.port import ChainUnavailable
from foundation.telemetry.known_secrets import hide_in_line
from operators.doctor.diagnoses import Check, Diagnosis, Part, State, error, skipped
from operators.doctor.looking import reading

_LOOK_AGAIN = "Run the doctor again."


def examine(checks: Sequence[Check], areas: Collection[str] = ()) -> Iterator[tuple[Check, Diagnosis]]:
    """Carry out the checks of some areas, by default of all, and what they rest on. No diagnosis holds a secret."""
    away: set[Part] = set()
    for check in checks:
        is_asked = not areas or check.area in areas
        if not is_asked and check.gives is None:
            continue
        for diagnosis in _carry_out(check, away):
            if check.gives and diagnosis.state in (State.ERROR, State.SKIPPED):
                away.add(check.gives)
            if is_asked:
                says, mend = hide_in_line(diagnosis.says), hide_in_line(diagnosis.mend)
                yield check, Diagnosis(hide_in_line(diagnosis.subject), diagnosis.state, says, mend)


def _carry_out(check: Check, away: set[Part]) -> Iterator[Diagnosis]:
    if missing := sorted(check.needs & away):
        yield skipped(check.looks_at, f"Not looked at without the {' and the '.join(missing)}.")
        return
    in_one_read = Part.DATABASE in check.needs and not check.asks_others
    try:
        with reading() if in_one_read else nullcontext():
            yield from check.find()
    except ImproperlyConfigured as trouble:
        yield skipped(check.looks_at, f"Not looked at: {trouble}")
    except (DatabaseError, redis.RedisError, ChainUnavailable, OSError) as trouble:
        yield error(check.looks_at, f"Could not be looked at: {type(trouble).__name__}: {trouble}", _LOOK_AGAIN)
    except Exception as trouble:  # noqa: BLE001 - what one check did not foresee must not hide what the others find
        says = f"The check itself failed: {type(trouble).__name__}: {trouble}"
        yield error(check.looks_at, says, "Report this; `--traceback` has no more of it. The other checks went on.")
