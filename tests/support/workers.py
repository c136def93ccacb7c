"""Celery's workers as real processes, with nobody to ring for them but the test."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from django.conf import settings

from tests.crash.installation import wait_until
from tests.support.servers import server_environment


@contextmanager
def worker(log: Path, *arguments: str, **variables: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a worker of two processes, in a group of its own, until the block ends."""
    command = [sys.executable, "-m", "celery", "--app", "allowance", "worker", "--loglevel", "INFO"]
    options = ["--concurrency", "2", "--without-gossip", "--without-mingle", "--hostname", f"{log.stem}@%h"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *options, *arguments],
            env={**server_environment(), **variables},
            cwd=settings.BASE_DIR,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        wait_until(lambda: " ready." in log.read_text(), "the worker is ready")
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
