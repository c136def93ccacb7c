"""What came of each scenario, as lines that are printed while it runs, a table and one JSON object at the end."""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from foundation.kernel.money import format_amount
from tests.overspend.evidence import Kind
from tests.overspend.judging import Verdict
from tests.overspend.names import TITLES

_MOST_PROBLEMS = 8
_HEADINGS = (
    "scenario", "processes", "requests", "approved", "allowed", "spent", "overspend", "doubled", "lost", "in the log",
    "seconds",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Result:
    """What one scenario came to, with how many web processes and in what time."""

    name: str
    processes: int
    seconds: float
    verdict: Verdict

    def as_json(self) -> dict[str, Any]:
        verdict = self.verdict
        return {
            "name": self.name,
            "processes": self.processes,
            "requests": verdict.requests,
            "approved": verdict.approved,
            "allowed": format_amount(verdict.allowed),
            "spent": format_amount(verdict.spent),
            "overspend": format_amount(verdict.overspend),
            "problems": {str(kind): len(found) for kind, found in verdict.problems.items()},
            "decided": verdict.decided,
            "inTheLog": verdict.found,
            "seconds": round(self.seconds, 1),
        }

    def cells(self) -> Sequence[str]:
        row = self.as_json()
        found = "all" if self.verdict.found == self.verdict.decided else f"{row['inTheLog']} of {row['decided']}"
        names = ("processes", "requests", "approved", "allowed", "spent", "overspend")
        problems = (row["problems"][kind] for kind in (Kind.DOUBLED, Kind.LOST))
        return (TITLES[self.name], *(str(row[name]) for name in names), *map(str, problems), found, str(row["seconds"]))


class Table:
    """All results of a run. `controls`: whether each leak was noticed, and by what sentence."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._results: list[Result] = []
        self._controls: dict[str, tuple[str, str]] = {}
        self._errors: list[str] = []

    @property
    def is_clean(self) -> bool:
        is_noticed = all(sentence for _, sentence in self._controls.values())
        return not self._errors and is_noticed and all(result.verdict.is_clean for result in self._results)

    def say(self, line: str) -> None:
        sys.stdout.write(f"{time.monotonic() - self._began:6.1f} s  {line}\n")
        sys.stdout.flush()

    def add(self, result: Result) -> None:
        self._results.append(result)
        self.say(f"{result.name}: {result.verdict.requests} requests, {result.verdict.approved} approved")
        for kind, sentences in result.verdict.problems.items():
            for sentence in sentences[:_MOST_PROBLEMS]:
                self.say(f"    {kind}: {sentence}")

    def add_control(self, name: str, leak: str, kind: Kind, verdict: Verdict) -> None:
        """Note whether a leak was noticed as what it is."""
        sentence = next(iter(verdict.problems[kind]), "")
        self._controls[name] = (leak, sentence)
        self.say(f"control {name}: {kind + ': ' + sentence if sentence else 'NOT NOTICED'}")

    def fail(self, sentence: str) -> None:
        self._errors.append(sentence)
        self.say(sentence)

    def show(self, seed: int) -> None:
        """Print the table, and as the last line the same as JSON."""
        rows = [_HEADINGS, *(result.cells() for result in self._results)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            first, *others = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            sys.stdout.write("\n" + "  ".join((first.strip().ljust(widths[0]), *others)))
        sys.stdout.write("\n\n")
        for result in self._results:
            if not result.verdict.is_clean:
                sys.stdout.write(f"✗ {TITLES[result.name]}: see above\n")
        for leak, sentence in self._controls.values():
            sys.stdout.write(f"{'✓ noticed' if sentence else '✗ NOT NOTICED'}, on purpose: {leak}\n")
        sys.stdout.write(json.dumps(self._as_json(seed)) + "\n")

    def _as_json(self, seed: int) -> dict[str, Any]:
        return {
            "isClean": self.is_clean,
            "seed": seed,
            "scenarios": [result.as_json() for result in self._results],
            "controlsNoticed": {name: bool(sentence) for name, (_, sentence) in self._controls.items()},
            "errors": self._errors,
        }
