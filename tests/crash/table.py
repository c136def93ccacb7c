"""What was done and what was found, as tables that are printed while they grow."""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


class Table:
    """The faults with how often and what happened, the noise, the checks."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._times: Counter[str] = Counter()
        self._notes: dict[str, str] = {}
        self._noise: Counter[str] = Counter()
        self._checks: dict[str, Sequence[str]] = {}
        self._totals: Mapping[str, Any] = {}

    @property
    def is_clean(self) -> bool:
        return bool(self._checks) and not any(self._checks.values())

    def begin(self, fault: str) -> None:
        self._say(f"{time.monotonic() - self._began:6.1f} s  {fault} ...")

    def note(self, fault: str, note: str) -> None:
        self._times[fault] += 1
        self._notes[fault] = note
        self._say(f"{time.monotonic() - self._began:6.1f} s      {note}")

    def has_all(self, faults: Iterable[str]) -> bool:
        return all(self._times[fault] for fault in faults)

    def add_noise(self, applied: Mapping[str, int]) -> None:
        self._noise.update(applied)

    def checked(self, name: str, problems: Sequence[str]) -> None:
        self._checks[name] = problems

    def total(self, totals: Mapping[str, Any]) -> None:
        self._totals = totals

    def show(self) -> None:
        """Print everything."""
        width = max(map(len, (*self._times, *self._noise)), default=0)
        self._say(f"\n{'Fault':<{width}}  Times  What happened (the last time)")
        for fault, note in self._notes.items():
            self._say(f"{fault:<{width}}  {self._times[fault]:>5}  {note}")
        self._say(f"\n{'Beside these: requests to nodes that met this, processes':<{width}}  Times")
        for fault, times in sorted(self._noise.items()):
            if times:
                self._say(f"{fault:<{width}}  {times:>5}")
        self._say("\nAt the end, from the chain itself")
        for name, problems in self._checks.items():
            self._say(f"{'✗' if problems else '✓'} {name}")
            for problem in problems:
                self._say(f"    {problem}")
        for name, value in self._totals.items():
            self._say(f"{name}: {value}")

    def _say(self, line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
