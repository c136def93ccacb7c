"""Management commands, run in process."""

import io
from typing import Any

from django.core.management import CommandError, call_command


def run(command: str, *arguments: str) -> tuple[list[str], Any]:
    """Run a command; returns what it printed, by line, and what it told besides if it failed, else None."""
    out, told = io.StringIO(), io.StringIO()
    try:
        call_command(command, *arguments, stdout=out, stderr=told)
    except CommandError as error:
        return out.getvalue().splitlines(), f"{told.getvalue()}{error}"
    return out.getvalue().splitlines(), None
