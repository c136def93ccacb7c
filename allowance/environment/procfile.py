"""Read the command of the web process from the Procfile: the demo and the tests start what production starts."""

import os
import re
import shlex
from pathlib import Path

_PROCFILE = Path(__file__).parents[2] / "Procfile"
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::-([^}]*))?\})")


def web_command(port: int, **variables: str) -> list[str]:
    """Give the command of `web`, as arguments of `python -m`, listening on this machine alone."""
    line = next(line for line in _PROCFILE.read_text().splitlines() if line.startswith("web: "))
    given = {**os.environ, **variables, "PORT": str(port)}
    expanded = _VARIABLE.sub(
        lambda found: given.get(found[1] or found[2]) or found[3] or "", line.removeprefix("web: ")
    )
    return [*shlex.split(expanded), "--host", "127.0.0.1"]  # granian takes the last --host
