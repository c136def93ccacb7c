"""Let a command outlive the reader of its output, as in `manage.py reconcile | head`.

What it changes is changed to the end, its output goes nowhere, and it ends with the status of a program that SIGPIPE
ended. The demo, which runs until somebody stops it, ends there and then.
"""

import io
import sys
from collections.abc import Sequence

# 128 + SIGPIPE
_STATUS = 141


class Outlet(io.FileIO):
    """An output of this process that takes what nobody reads any more."""

    is_read = True

    def __init__(self, descriptor: int, *, ends_with_reader: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._ends_with_reader = ends_with_reader

    def write(self, data: "bytes | bytearray | memoryview", /) -> int:  # type: ignore[override]
        try:
            return super().write(data)
        except BrokenPipeError:
            ends, self.is_read = self.is_read and self._ends_with_reader, False
            if ends:
                sys.exit(_STATUS)
            return len(data)


def outlive_readers(arguments: Sequence[str]) -> list[Outlet]:
    """Exchange this process's outputs for such that outlive their readers; `arguments` are those of `manage.py`."""
    ends = [*arguments[:1]] == ["demo"]
    outlets = [Outlet(stream.fileno(), ends_with_reader=ends) for stream in (sys.stdout, sys.stderr)]
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(
            io.BufferedWriter(outlet), stream.encoding, stream.errors, line_buffering=bool(stream.line_buffering)
        )
        for outlet, stream in zip(outlets, (sys.stdout, sys.stderr), strict=True)
    )
    return outlets


def end(outlets: Sequence[Outlet]) -> None:
    """End a command that has done its work.

    Raises:
        SystemExit: with a status that says so if nobody read all of its output.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    if not all(outlet.is_read for outlet in outlets):
        sys.exit(_STATUS)
