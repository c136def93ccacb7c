"""Releases of the product as operators run them: the last one and this one."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import requests

from tests.runbooks.patience import wait_for
from tests.support.kills import children
from tests.support.ports import free_ports

# Variables of this release that the last one does not know, or refuses as misspelt.
UNKNOWN_TO_LAST = frozenset({"WEBHOOK_SIGNING_KEY", "WEBHOOK_SIGNING_KEY_FALLBACKS", "LOG_FORMAT", "ACCESS_LOG"})
# In the order in which a release takes the place of another one; the one before comes back in the opposite order.
ORDER = ("worker", "webhooks", "beat", "web")
# What a load balancer in front, which ends TLS, tells `web` of each request.
OVER_TLS = {"X-Forwarded-Proto": "https"}
_PATIENCE_S = 240
_FEW = {"WEB_CONCURRENCY": "1", "WORKER_CONCURRENCY": "2", "WEBHOOK_CONCURRENCY": "1"}


@dataclass(slots=True)
class Release:
    """One release in its folder, with the processes of its Procfile that run. `name` is what the database calls it."""

    name: str
    folder: Path
    variables: dict[str, str]
    logs: Path
    port: int = field(default_factory=lambda: free_ports(1)[0])
    running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def release(self) -> None:
        """Run `release`, as a platform does before it starts anything."""
        process = self._start("release")
        assert process.wait(_PATIENCE_S) == 0, self.log_of("release")

    def migrate(self) -> None:
        """Run the part of `release` that changes the database."""
        self.manage("migrate", "--no-input")

    def start(self, *kinds: str) -> None:
        """Start processes; returns when they do their work."""
        self.begin(*kinds)
        self.wait_until_they_work(*kinds)

    def begin(self, *kinds: str) -> None:
        for kind in kinds:
            self.running[kind] = self._start(kind)

    def wait_until_they_work(self, *kinds: str) -> None:
        wait_for(lambda: all(map(self._works, kinds)), f"{kinds} of {self.name} work, see {self.logs}")

    def stop(self, kind: str) -> None:
        """Stop a process as platforms do; it ends what it has begun, and then itself."""
        process = self.running.pop(kind)
        process.send_signal(signal.SIGTERM)
        assert process.wait(_PATIENCE_S) in (0, -signal.SIGTERM), self.log_of(kind)

    def manage(self, *arguments: str, **variables: str) -> str:
        """Run a command; returns what it prints."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            env={**self.variables, **variables}, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=_PATIENCE_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def log_of(self, kind: str) -> str:
        """Read what all processes of a kind have said so far."""
        path = self.path_of_log(kind)
        return path.read_text() if path.exists() else ""

    def kill(self) -> None:
        """Kill whatever runs, as a power cut would."""
        for process in self.running.values():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.running.clear()

    def _start(self, kind: str) -> "subprocess.Popen[bytes]":
        lines = (self.folder / "Procfile").read_text().splitlines()
        (command,) = (line.partition(": ")[2] for line in lines if line.startswith(f"{kind}: "))
        # A release is several commands, any other process is one: it takes the shell's place, and gets its signals.
        script = command if kind == "release" else f"exec {command}"
        with self.path_of_log(kind).open("ab") as log:
            return subprocess.Popen(
                ["bash", "-c", script], env=self._environment(kind), cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def _environment(self, kind: str) -> dict[str, str]:
        # The payee of the story listens on this machine, where only a development installation tells it anything.
        development = {
            "EMBEDDED": "true", "WEBHOOKS_ALLOW_PRIVATE": "true",
            "CHAIN_EVM_LOCALNET_RPC_URLS": "http://127.0.0.1:9", "CHAIN_SOLANA_LOCALNET_RPC_URLS": "http://127.0.0.1:9",
        }  # fmt: skip
        own = {"PORT": str(self.port), "PGAPPNAME": f"{self.name} {kind}"}
        return {**self.variables, **_FEW, **own, **(development if kind == "webhooks" else {})}

    def path_of_log(self, kind: str) -> Path:
        """Name the file that all processes of a kind write to."""
        return self.logs / f"{self.name}-{kind}.log"

    def _works(self, kind: str) -> bool:
        assert self.running[kind].poll() is None, self.log_of(kind)
        if kind == "beat":  # it has no database, and says nothing
            return True
        # A worker of Celery starts its pool once it has everything else.
        return self._answers() if kind == "web" else bool(children(self.running[kind].pid))

    def _answers(self) -> bool:
        try:
            return requests.get(f"{self.url}/readyz", headers=OVER_TLS, timeout=5).ok
        except requests.RequestException:
            return False


@contextmanager
def running(*releases: Release) -> Iterator[None]:
    """Let nothing of these releases outlive the block."""
    try:
        yield
    finally:
        for release in releases:
            release.kill()
