"""Real server and client processes for tests that make claims about concurrency."""

import itertools
import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import requests
from django.conf import settings
from django.db import connection

from foundation.environment.procfile import web_command
from workshop.localnet.folder import is_free

# Below those that Linux and macOS hand out to outgoing connections, and none that an installation takes.
_PORTS = range(12_000, 20_000)


class Servers:
    """Several web servers as the Procfile has them, of two processes each, on the database that the tests use.

    `variables`: what each has in its environment besides. `log`: where they write what they would say here.
    """

    PROCESSES_EACH = 2

    def __init__(self, count: int, *, variables: Sequence[Mapping[str, str]] = (), log: Path | None = None) -> None:
        self._variables = variables or [{}] * count
        self._log = log
        self._ports = free_ports(count)
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self._ports]

    @property
    def pids(self) -> list[int]:
        """The first process of each server; it starts the others."""
        return [process.pid for process in self._processes]

    def __enter__(self) -> Self:
        self._processes += [self._run(index) for index in range(len(self._ports))]
        try:
            for url in self.urls:
                _wait_until_alive(url)
        except requests.RequestException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(timeout=30)

    def kill(self, index: int) -> None:
        """Kill a server and its workers on the spot, as a power cut would."""
        os.killpg(self._processes[index].pid, signal.SIGKILL)
        self._processes[index].wait(timeout=30)

    def launch(self, index: int) -> int:
        """Start a server without waiting for it; returns its process."""
        self._processes.insert(index, self._run(index))
        return self._processes[index].pid

    def stop(self, index: int) -> int:
        """Tell a server to end, and wait until it has; returns its status."""
        self._processes[index].terminate()
        return self._processes[index].wait(timeout=60)

    def start(self, index: int) -> None:
        """Start a server that was killed, at its old address; returns when it answers."""
        self._processes[index] = self._run(index)
        _wait_until_alive(self.urls[index])

    def _run(self, index: int) -> "subprocess.Popen[bytes]":
        web = web_command(self._ports[index], WEB_CONCURRENCY=str(self.PROCESSES_EACH))
        command = [sys.executable, "-m", *web, "--log-level", "warning"]
        environment = {**server_environment(), **self._variables[index]}
        with (self._log or Path(os.devnull)).open("ab") as file:
            output = file if self._log else None
            # In a group of its own, so that a server dies with its workers when a test kills it.
            return subprocess.Popen(
                command, env=environment, cwd=settings.BASE_DIR, start_new_session=True, stdout=output, stderr=output
            )


@dataclass(frozen=True, slots=True)
class Shot:
    """One request of a storm."""

    url: str
    api_key: str
    idempotency_key: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; status 0: the connection broke. `index` is the shot's; `sent_at` is of the monotonic clock."""

    index: int
    status: int
    text: str
    is_replay: bool
    sent_at: float = 0.0

    @property
    def code(self) -> str:
        return str(json.loads(self.text)["error"]["code"])


class Storm:
    """Payment requests from several client processes of several threads each, all at once.

    The clients connect first and wait for each other. Iterating gives the answers as they come. `on_ready` is called
    when all of them could begin, and before they do.
    """

    def __init__(
        self, shots: list[Shot], processes: int = 3, threads: int = 8, on_ready: Callable[[], None] = lambda: None
    ) -> None:
        self._processes = []
        self._answers: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
        for number in range(processes):
            jobs = [
                [index, shot.url, shot.api_key, shot.idempotency_key, shot.body]
                for index, shot in enumerate(shots)
                if index % processes == number
            ]
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.client", str(threads)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=settings.BASE_DIR,
            )
            assert process.stdin
            process.stdin.write(json.dumps(jobs) + "\n")
            process.stdin.flush()
            self._processes.append(process)
        for process in self._processes:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
        on_ready()
        for process in self._processes:
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
            threading.Thread(target=self._listen, args=(process,)).start()

    def __iter__(self) -> Iterator[Answer]:
        for _ in self._processes:
            yield from iter(self._answers.get, None)
        for process in self._processes:
            assert process.wait(timeout=60) == 0
            assert process.stdin
            process.stdin.close()

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        """Take what a process says as it says it, so that none waits for another to be heard."""
        assert process.stdout
        with process.stdout as lines:
            for line in lines:
                self._answers.put(Answer(*json.loads(line)))
        self._answers.put(None)


def strike(shots: list[Shot], processes: int = 3, threads: int = 8) -> list[Answer]:
    """Let a storm pass and return its answers in the order of the shots."""
    return sorted(Storm(shots, processes, threads), key=lambda answer: answer.index)


def server_environment() -> dict[str, str]:
    """Give another process the environment of the tests, with the database that the tests use."""
    name = connection.settings_dict["NAME"]
    head, _, _ = os.environ["DATABASE_URL"].rpartition("/")
    return {**os.environ, "DATABASE_URL": f"{head}/{name}"}


def free_ports(count: int) -> list[int]:
    """Choose TCP ports that nobody has, and that no outgoing connection is given before somebody listens there."""
    return list(itertools.islice(filter(is_free, random.sample(_PORTS, k=1_000)), count))


def _wait_until_alive(url: str, patience_s: float = 60) -> None:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            if requests.get(f"{url}/healthz", timeout=2).ok:
                return
        except requests.RequestException:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)
