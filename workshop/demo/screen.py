"""Print the demo's headings, steps with their promise and outcome, and tables."""

import io
import os
import textwrap
import time
from collections.abc import Sequence
from typing import TextIO

WIDTH = 100
_GAP = "  "
_GREEN, _RED, _BOLD, _DIM = "32", "31", "1", "2"


class Screen:
    """Writes to a terminal or a file, at once, in colour only where that is welcome. Counts the steps."""

    def __init__(self, stream: TextIO, began_at: float | None = None) -> None:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode shows question marks
        self._stream = stream
        self._has_colour = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._yes, self._no = _marks(stream)
        self._began_at = time.time() if began_at is None else began_at
        self.steps = 0
        self.kept = 0

    def elapsed_s(self) -> float:
        """Count the seconds since the demo was called for: `began_at`, in seconds since 1970."""
        return time.time() - self._began_at

    def write(self, text: str) -> None:
        """Write exactly this, now."""
        self._stream.write(text)
        self._stream.flush()

    def line(self, text: str = "") -> None:
        self.write(f"{text}\n")

    def heading(self, text: str) -> None:
        self.line(f"\n{self._paint(text, _BOLD)}")

    def detail(self, text: str) -> None:
        """Say more about the present step."""
        indent = " " * 6
        for one in textwrap.wrap(text, WIDTH - len(indent), break_long_words=False, break_on_hyphens=False):
            self.line(indent + self._paint(one, _DIM))

    def step(self, title: str, promised: str) -> None:
        """Begin a step: what is tried and what was promised."""
        self.steps += 1
        self.line(f"\n{self.steps:>3}  {self._paint(title, _BOLD)}")
        self._entry(" ", "promised", promised)

    def came(self, text: str, *, as_promised: bool) -> None:
        """End a step: what came."""
        self.kept += as_promised
        mark = self._paint(self._yes, _GREEN) if as_promised else self._paint(self._no, _RED)
        self._entry(mark, "came", text)

    def total(self) -> None:
        """Say how many steps came out as promised."""
        text = f"{self.kept} of {self.steps} steps came out as promised."
        self.heading(self._paint(text, _GREEN if self.kept == self.steps else _RED))

    def table(self, rows: Sequence[Sequence[str]], right: int) -> None:
        """Write rows below the first one, the headings, in at most 100 columns; `right` is aligned to the right."""
        widths = fit([max(map(len, column)) for column in zip(*rows, strict=True)])
        self.line()
        for number, row in enumerate(rows):
            cells = [
                f"{cut(cell, width):{'>' if column == right else '<'}{width}}"
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            text = _GAP.join(cells).rstrip()
            self.line(text if number else self._paint(text, _BOLD))

    def mark(self, *, is_good: bool) -> str:
        """Give the sign for a cell of a table."""
        return self._yes if is_good else self._no

    def _entry(self, mark: str, label: str, text: str) -> None:
        indent = " " * 16
        first, *others = textwrap.wrap(text, WIDTH - len(indent), break_long_words=False) or [""]
        self.line(f"    {mark} {label:<10}{first}")
        for other in others:
            self.line(indent + other)

    def _paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._has_colour else text


def fit(widths: list[int]) -> list[int]:
    """Take from the widest columns what does not fit into the screen."""
    fitted = list(widths)
    while sum(fitted) + len(_GAP) * (len(fitted) - 1) > WIDTH:
        fitted[fitted.index(max(fitted))] -= 1
    return fitted


def cut(text: str, width: int) -> str:
    """Shorten a text to a width, visibly."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _marks(stream: TextIO) -> tuple[str, str]:
    try:
        "✓✗".encode(stream.encoding or "ascii")
    except UnicodeEncodeError:
        return "+", "x"
    return "✓", "✗"
