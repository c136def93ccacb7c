"""Real web server processes for tests that make claims about concurrency."""

import os
import socket
import subprocess
import sys
import time
from types import TracebackType
from typing import Self

import requests
from django.conf import settings
from django.db import connection


class Servers:
    """Several granian servers of two worker processes each, on the database that the tests use."""

    def __init__(self, count: int) -> None:
        self._ports = [_free_port() for _ in range(count)]
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self._ports]

    def __enter__(self) -> Self:
        for port in self._ports:
            command = [
                sys.executable, "-m", "granian", "--interface", "wsgi", "--host", "127.0.0.1", "--port", str(port),
                "--workers", "2", "--blocking-threads", "4", "--no-access-log", "--log-level", "warning",
                "allowance.wsgi:application",
            ]  # fmt: skip
            self._processes.append(subprocess.Popen(command, env=server_environment(), cwd=settings.BASE_DIR))
        for url in self.urls:
            _wait_until_alive(url)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(timeout=30)


def server_environment() -> dict[str, str]:
    """Give another process the environment of the tests, with the database that the tests use."""
    name = connection.settings_dict["NAME"]
    head, _, _ = os.environ["DATABASE_URL"].rpartition("/")
    return {**os.environ, "DATABASE_URL": f"{head}/{name}"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _wait_until_alive(url: str, patience_s: float = 60) -> None:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            if requests.get(f"{url}/healthz", timeout=2).ok:
                return
        except requests.ConnectionError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)
