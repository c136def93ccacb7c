"""`manage.py demo` as a process, in an installation of its own."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workshop.localnet.folder import ROOT

# The whole story takes forty seconds on two processors that do nothing else.
PATIENCE_S = 300


class Demo:
    """One run of the demo on a data folder; nothing of the tests' own environment reaches it."""

    def __init__(self, folder: Path, *arguments: str, **variables: str) -> None:
        self.folder = folder
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        self._output = folder.with_name(f"{folder.name}.{time.monotonic_ns()}")
        with self._output.open("w") as stream:
            self.process = subprocess.Popen(
                [sys.executable, str(ROOT / "manage.py"), "demo", *arguments],
                env={**kept, "EMBEDDED": "true", "EMBEDDED_DIR": str(folder), **variables},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )

    @property
    def output(self) -> str:
        """All that was printed so far."""
        return self._output.read_text()

    def finish(self) -> tuple[int, str]:
        """Wait for the end; returns the status and all that was printed."""
        return self.process.wait(PATIENCE_S), self.output

    def wait_until_ready(self) -> None:
        """Wait until the story begins."""
        self.wait_until_it_says("after the start, at http")

    def wait_until_it_says(self, words: str) -> None:
        """Wait until the story has come so far."""
        wait_for(lambda: words in self.output or self.process.poll() is not None, PATIENCE_S)
        assert self.process.poll() is None, self.output

    def wait_for_file(self, path: Path) -> dict[str, Any]:
        """Wait until the demo has written its JSON file."""
        wait_for(lambda: path.exists() or self.process.poll() is not None, PATIENCE_S)
        assert self.process.poll() is None, self.output
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def kill(self) -> None:
        """End it, without a chance to clean up."""
        self.process.kill()
        self.process.wait()


def processes_of(folder: Path) -> dict[int, str]:
    """Find all processes of an installation by their environment or arguments: the command lines by process id."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            environment = (process / "environ").read_bytes()
        except OSError:  # it has just ended
            continue
        if os.fsencode(folder) in command or b"EMBEDDED_DIR=" + os.fsencode(folder) in environment.split(b"\0"):
            found[int(process.name)] = command.replace(b"\0", b" ").decode()
    return found


def wait_for(condition: Callable[[], bool], patience_s: float) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
