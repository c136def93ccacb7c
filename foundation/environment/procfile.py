"""Read commands from the Procfile: images, units, the demo and the tests start what a platform starts."""

import os
import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::-([^}]*))?\})")


def process_names() -> list[str]:
    """Name the lines of the Procfile."""
    return [line.partition(": ")[0] for line in _lines()]


def commands_of(name: str, **variables: str) -> list[list[str]]:
    """Give the commands of a line, one after the other, as arguments of Python.

    `variables` come before those of the environment.
    """
    line = next(line for line in _lines() if line.startswith(f"{name}: "))
    given = {**os.environ, **variables}
    expanded = _VARIABLE.sub(lambda found: given.get(found[1] or found[2]) or found[3] or "", line)
    commands = [shlex.split(part) for part in expanded.removeprefix(f"{name}: ").split(" && ")]
    return [command[1:] if command[0] == "python" else ["-m", *command] for command in commands]


def web_command(port: int, *, name: str = "web", **variables: str) -> list[str]:
    """Give the command of `web`, or of `mcp`, as arguments of `python -m`, listening on this machine alone."""
    ((_, *command),) = commands_of(name, **{**variables, "PORT": str(port)})
    return [*command, "--host", "127.0.0.1"]  # granian takes the last --host


def _lines() -> list[str]:
    return (ROOT / "Procfile").read_text().splitlines()
