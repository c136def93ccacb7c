"""The whole product as processes, which tests start, kill and start again, one by one."""

import os
import signal
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

import requests
from django.db import connection

from tests.support.kills import wait_until
from tests.support.ports import free_ports
from workshop.demo.processes import Child, Processes

_HOST = "127.0.0.1"
_LISTENING = ("web", "mcp")
# A worker says when it is ready.
_SAYS = {
    "web": ("--log-level", "warning"),
    "worker": ("--loglevel", "INFO"),
    "webhooks": ("--loglevel", "INFO"),
}
_STOP_S = 60
_MOST_REVIVALS = 20


class House(Processes):
    """Processes of the Procfile by name: `web`, `web-2`, `worker`, `webhooks`, `beat`. None outlives the block.

    `logs`: the folder of their logs; without one, these go with the block. `environment`: what all of them have;
    without one, what this process has, with the tests' database. `ended` counts those that ended by themselves.
    """

    def __init__(self, logs: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
        self._own = ExitStack()
        folder = logs or Path(self._own.enter_context(TemporaryDirectory(prefix="allowance-logs-")))
        super().__init__(folder, server_environment() if environment is None else environment)
        self.ended: Counter[str] = Counter()
        self._ports: dict[str, int] = {}
        self._gone: dict[str, Child] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End what runs, and forget what was logged unless somebody named a folder for it.

        Raises:
            AssertionError: a process did not end when it was told to, and had to be killed.
        """
        stubborn = self.stop(_STOP_S)
        last_words = {name: self.log_of(name).read_text()[-2_000:] for name in stubborn}
        self._own.close()
        assert not stubborn, f"These had to be killed: {last_words}"

    def start(self, name: str, *arguments: str, **variables: str) -> None:
        """Start what the Procfile has for it; what listens does so at a port that nobody has."""
        line = name.partition("-")[0]
        if line in _LISTENING:
            self._ports[name] = free_ports(1)[0]
            variables["PORT"] = str(self._ports[name])
        super().start(name, *_SAYS.get(line, ()), *arguments, **variables)

    def pid(self, name: str) -> int:
        """Name the first process; it has started the others."""
        return self._children[name].process.pid

    def names(self) -> list[str]:
        return [*self._children]

    def url(self, name: str) -> str:
        return f"http://{_HOST}:{self._ports[name]}"

    def wait_for(self, *names: str) -> None:
        """Wait until each does its work.

        Raises:
            ChildEndedError: one of the house has ended instead.
        """
        for name in names:
            wait_until(partial(self._works, name), f"{name} works, see {self.log_of(name)}")

    def kill(self, name: str) -> None:
        """Kill a process with -9, and all that it started, as a power cut would."""
        self._gone[name] = self._children.pop(name)
        self._gone[name].kill()

    def end(self, name: str) -> int:
        """Tell a process to end, and wait until it has; returns its status."""
        self._children[name].process.terminate()
        status = self._children[name].process.wait(_STOP_S)
        self.kill(name)
        return status

    def again(self, name: str) -> None:
        """Start what was killed or has ended, as it was started before."""
        gone = self._gone.pop(name)
        self.run(name, *gone.command, **gone.variables)

    def revive(self) -> None:
        """Start again what ended by itself, as every platform does.

        Raises:
            ChildEndedError: it ends time after time.
        """
        if self.ended.total() > _MOST_REVIVALS:
            self.check()
        for name, child in [*self._children.items()]:
            if child.process.poll() is not None:
                self.ended[f"{name} ended by itself with status {child.process.returncode}"] += 1
                self.kill(name)
                self.again(name)

    def signal(self, number: signal.Signals, *names: str) -> None:
        """Send a signal to processes, and to all that they started."""
        for name in names:
            os.killpg(self.pid(name), number)

    def is_alive(self, web: str) -> bool:
        """Tell whether a web server answers."""
        try:
            return requests.get(f"{self.url(web)}/healthz", timeout=2).ok
        except requests.RequestException:
            return False

    def _works(self, name: str) -> bool:
        self.check()
        if name in self._ports:
            return self.is_alive(name)
        # A scheduler says nothing, and works at once.
        return name.partition("-")[0] == "beat" or " ready." in self._children[name].said()


def server_environment() -> dict[str, str]:
    """Give another process the environment of the tests, with the database that the tests use."""
    head, _, _ = os.environ["DATABASE_URL"].rpartition("/")
    return {**os.environ, "DATABASE_URL": f"{head}/{connection.settings_dict['NAME']}"}
