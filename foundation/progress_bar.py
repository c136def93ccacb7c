"""The progress bar of commands that take a while."""

import sys
import time

_BAR = 30
_REDRAWN_EVERY_S = 0.2


class ProgressBar:
    """A progress bar on stderr: one line that is redrawn, or a line now and then where nobody looks."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._began_at = self._drawn_at = time.monotonic()
        self._every_s = _REDRAWN_EVERY_S if sys.stderr.isatty() else 10

    def draw(self, done: int) -> None:
        now = time.monotonic()
        if now - self._drawn_at >= self._every_s:
            self._drawn_at = now
            self._write(done, now - self._began_at)

    def end(self) -> float:
        """Fill the bar; returns the seconds that it took."""
        took_s = time.monotonic() - self._began_at
        self._write(self._total, took_s)
        sys.stderr.write("\n" if sys.stderr.isatty() else "")
        return took_s

    def _write(self, done: int, took_s: float) -> None:
        filled = _BAR * done // max(self._total, 1)
        rate = done / took_s if took_s else 0
        left_s = (self._total - done) / rate if rate else 0
        line = f"[{'#' * filled:.<{_BAR}}] {done:,} of {self._total:,}, {rate:,.0f} a second, {left_s:.0f} s left"
        sys.stderr.write(f"\r{line}\033[K" if sys.stderr.isatty() else f"{line}\n")
