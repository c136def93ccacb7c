"""Files of agents, and what `create_agent --from` says of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.commands import run
from tests.support.factories import new_name

HEADER = "id,asset,max_per_payment,daily_limit,weekly_limit"
Write = Callable[..., str]


def write_agent_file(directory: Path, *lines: str, header: str = HEADER) -> str:
    """Write a file of agents; returns its path."""
    path = directory / "agents.csv"
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return str(path)


def make(path: str, *arguments: str) -> Any:
    """Make the agents of a file; returns what the command printed."""
    lines, error = run("create_agent", "--from", path, *arguments)
    assert error is None, error
    return json.loads(lines[-1])


def refusal(path: str, *arguments: str) -> str:
    """Have a file refused; returns what was said."""
    lines, error = run("create_agent", "--from", path, *arguments)
    assert not lines
    assert error is not None
    return str(error)


def names(count: int) -> list[str]:
    """Make names of agents, in order."""
    stem = new_name("agent")
    return [f"{stem}-{number}" for number in range(count)]
