"""Measure in an installation of its own, which is removed afterwards."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

DATA = Path(__file__).parent.parent.parent / ".data"
_INSIDE = "ALLOWANCE_BENCHMARK"
_RESULT = "ALLOWANCE_BENCHMARK_RESULT"
T = TypeVar("T")


def measure_apart(
    module: str,
    measure: Callable[[T], Any],
    options: T,
    *,
    beside: Callable[[], AbstractContextManager[None]] = nullcontext,
    **settings: str,
) -> None:
    """Run a benchmark's module again, with the same arguments, where nothing else lives; there, measure.

    `beside`: what runs there meanwhile, and is entered before the installation is started.
    """
    if _INSIDE in os.environ:
        with beside():
            _set_up()
            result = measure(options)
            if _RESULT in os.environ:
                Path(os.environ[_RESULT]).write_text(json.dumps(result))
        return
    DATA.mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=DATA) as folder:
        environment = {
            **os.environ,
            _INSIDE: "true",
            "EMBEDDED": "true",
            "EMBEDDED_DIR": folder,
            "RATE_LIMIT_PER_MINUTE": "1000000000",
            "REFUSALS_PER_MINUTE": "10000",
            "LOG_LEVEL": "WARNING",
            **settings,
        }
        # In a process of its own: when it has ended, so have the servers, and the folder can go.
        command = [sys.executable, "-m", module, *sys.argv[1:]]
        sys.exit(subprocess.run(command, env=environment, check=False).returncode)


def run(module: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Run a benchmark's module as a command; returns what it measured: what `measure` of `measure_apart` returned.

    Raises:
        RuntimeError: it failed, with its last words. All that it said is on standard error.
    """
    last = ""
    with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        command = [sys.executable, "-m", module, *arguments]
        environment = {**os.environ, _RESULT: file.name}
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr
            for line in process.stderr:
                sys.stderr.write(line)
                last = line.strip() or last
        if process.returncode:
            raise RuntimeError(f"{module} failed: {last}")
        result: dict[str, Any] | None = json.loads(file.read() or "null")
    return result or {}


def _set_up() -> None:
    from allowance.boot import boot

    boot(["benchmark"])
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
