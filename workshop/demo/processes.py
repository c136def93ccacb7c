"""Processes of the product: started as its Procfile has them, watched, and ended together."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from foundation.environment.procfile import commands_of, web_command

_STOP_S = 15
_TAIL_LINES = 20


class ChildEndedError(Exception):
    """Say which process ended by itself, and what it printed last."""


@dataclass(frozen=True, slots=True)
class Child:
    """One process, the leader of a session of its own: Ctrl-C in the terminal does not reach it.

    `command` and `variables` are what it was started with, and would be again.
    """

    name: str
    command: tuple[str, ...]
    variables: Mapping[str, str]
    process: "subprocess.Popen[bytes]"
    log: Path
    log_begins_at: int

    def said(self) -> str:
        """Read what it has printed; those of this name before it wrote to the same log."""
        return self.log.read_bytes()[self.log_begins_at :].decode(errors="replace")

    def end_of_log(self) -> str:
        """Return the last of what it has printed, indented."""
        lines = self.said().splitlines()[-_TAIL_LINES:]
        return "\n".join(f"  {line}" for line in lines) or "  (it printed nothing)"

    def kill(self) -> None:
        """End what is left of it and of the processes that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()


class Processes:
    """Processes of one installation, by name. `stop` ends them, and nothing else.

    None outlives the process that started it, however that ends. Their logs lie in one folder, and begin anew.
    """

    def __init__(self, log_folder: Path, environment: Mapping[str, str]) -> None:
        self._log_folder = log_folder
        self._environment = environment
        self._children: dict[str, Child] = {}
        log_folder.mkdir(mode=0o700, exist_ok=True)
        for old in log_folder.glob("*.log"):
            old.unlink()

    def start(self, name: str, *arguments: str, **variables: str) -> None:
        """Start what the Procfile's line of this name says; `web-2` is another `web`.

        `arguments` come behind those of the line. `variables` are added to its environment; with PORT among them, it
        listens there, on this machine alone.
        """
        line, given = name.partition("-")[0], {**self._environment, **variables}
        if "PORT" in variables:
            command = web_command(int(variables["PORT"]), name=line, **given)
        else:
            ((_, *command),) = commands_of(line, **given)
        self.run(name, *command, *arguments, **variables)

    def run(self, name: str, module: str, *arguments: str, **variables: str) -> None:
        """Start `python -m module`, with what it prints going behind what its log has.

        `variables` are added to its environment: other users cannot read them, as they can arguments.
        """
        path = self.log_of(name)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "ab") as log:
            begins_at = log.tell()
            process = subprocess.Popen(  # noqa: S603 - this Python, arguments of our own
                [sys.executable, "-m", "workshop.demo.child", module, *arguments],
                stdin=subprocess.PIPE,  # never written to: its end tells the child that the demo is gone
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**self._environment, **variables},
                cwd=settings.BASE_DIR,
                start_new_session=True,
            )
        self._children[name] = Child(name, (module, *arguments), variables, process, path, begins_at)

    def log_of(self, name: str) -> Path:
        """Name the log of a process that is started by this name."""
        return self._log_folder / f"{name}.log"

    def check(self) -> None:
        """See that every process still runs.

        Raises:
            ChildEndedError: one does not.
        """
        for child in self._children.values():
            status = child.process.poll()
            if status is not None:
                message = f"{child.name} ended unexpectedly ({_describe(status)}). The end of {child.log}:"
                raise ChildEndedError(f"{message}\n{child.end_of_log()}")

    def stop(self, patience_s: float = _STOP_S) -> list[str]:
        """End every process: ask, wait, and only then insist; returns those that had to be killed."""
        stubborn = []
        for child in self._children.values():
            if child.process.poll() is None:
                child.process.terminate()
        deadline = time.monotonic() + patience_s
        for child in self._children.values():
            try:
                child.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                stubborn.append(child.name)
            child.kill()
        self._children.clear()
        return stubborn


def _describe(status: int) -> str:
    return f"status {status}" if status >= 0 else signal.Signals(-status).name
