"""Client processes that send many payment requests at once, for tests that make claims about concurrency."""

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.conf import settings


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
