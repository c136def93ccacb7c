"""`manage.py doctor [--only AREA]`."""

import json
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from django.core.management.base import CommandError, CommandParser

from foundation.commands import JsonCommand
from operators.doctor.diagnoses import Check, Diagnosis, State
from operators.doctor.examining import examine
from operators.doctor.registry import AREAS, CHECKS

_COLOURS = {State.OK: "SUCCESS", State.WARNING: "WARNING", State.ERROR: "ERROR", State.SKIPPED: "NOTICE"}


class Command(JsonCommand):
    help = (
        "Look for everything that can be wrong with an installation, and say what mends it: configuration, keys, "
        "database, Redis, clocks, processes, chains, webhooks, notices, staff, books. It changes nothing, sends "
        "nothing, shows no secret, and works where nothing else does. Ends with status 1 if something keeps payments, "
        "or what goes with them, from working."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--only", action="append", choices=AREAS, metavar="AREA", help=f"Only: {', '.join(AREAS)}.")

    def perform(self, **options: Any) -> dict[str, Any]:
        # Drivers would log in between what is a finding here.
        logging.disable()
        try:
            found = list(self._examine(options["only"] or ()))
        finally:
            logging.disable(logging.NOTSET)
        counts = Counter(diagnosis.state for _, diagnosis in found)
        result = {
            "errors": counts[State.ERROR],
            "warnings": counts[State.WARNING],
            "skipped": counts[State.SKIPPED],
            "findings": [_present(check, diagnosis) for check, diagnosis in found],
        }
        if counts[State.ERROR]:
            self.stdout.write(json.dumps(result, ensure_ascii=False))
            raise CommandError(f"{counts[State.ERROR]} errors, {counts[State.WARNING]} warnings: see the mends above.")
        return result

    def _examine(self, areas: Sequence[str]) -> Iterator[tuple[Check, Diagnosis]]:
        """Carry the checks out and print each line as soon as it is known."""
        area = ""
        for check, diagnosis in examine(CHECKS, areas):
            if check.area != area:
                area = check.area
                self.stdout.write(f"\n{area}")
            state = f"{diagnosis.state:<8}"
            self.stdout.write(
                f"  {getattr(self.style, _COLOURS[diagnosis.state])(state)} {diagnosis.subject}: {diagnosis.says}"
            )
            if diagnosis.mend:
                self.stdout.write(f"           mend: {diagnosis.mend}")
            self.stdout.flush()
            yield check, diagnosis


def _present(check: Check, diagnosis: Diagnosis) -> dict[str, str]:
    found = {"subject": diagnosis.subject, "state": diagnosis.state, "says": diagnosis.says, "mend": diagnosis.mend}
    return {"area": check.area, "check": check.looks_at, **found}
