"""Clocks that are wrong on purpose: of processes, and of the database as some processes see it."""

import os
from datetime import datetime, timedelta
from pathlib import Path

from foundation.kernel.times import utc_now
from tests.crash.installation import Installation

_FOLDER = Path(__file__).parent / "wrong_clock"


class ProcessClock:
    """The clock of processes, wrong by as much as one says; it can jump while they run."""

    def __init__(self, file: Path, ahead: timedelta = timedelta()) -> None:
        self._file = file
        self.set_ahead(ahead)

    @property
    def variables(self) -> dict[str, str]:
        """The environment of the processes that have it."""
        path = os.pathsep.join(filter(None, (str(_FOLDER), os.environ.get("PYTHONPATH"))))
        return {"PYTHONPATH": path, "CLOCK_FILE": str(self._file)}

    def set_ahead(self, ahead: timedelta) -> None:
        draft = self._file.with_suffix(".new")
        draft.write_text(str(ahead.total_seconds()))
        draft.replace(self._file)


class WorldClock:
    """The clock of processes and of their database together: for them, it is another day."""

    def __init__(self, file: Path, installation: Installation) -> None:
        self.processes = ProcessClock(file)
        self._installation = installation

    def set(self, instant: datetime) -> None:
        """Let it be this moment; time goes on from there."""
        ahead = instant - utc_now()
        self.processes.set_ahead(ahead)
        self._installation.execute("UPDATE wrong_clock.setting SET ahead = %s", ahead)
