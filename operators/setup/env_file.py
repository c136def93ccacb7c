"""Files of variables, in the lines that shells, systemd and Docker Compose all read the same."""

import os
import re
from pathlib import Path

from foundation.kernel.secrecy import SecretText

_PLAIN = "[A-Za-z0-9_@%+=:,./?-]*"
_QUOTED = r"[ -&(-\[\]-~]*"  # printable ASCII without ' and \
_LINE = re.compile(rf"([A-Za-z_][A-Za-z0-9_]*)=(?:({_PLAIN})|'({_QUOTED})')")


def read_variables(text: str) -> dict[str, SecretText]:
    """Read a file's variables; empty ones count as not set.

    Raises:
        ValueError: names the line that not every reader would read the same, never its value.
    """
    found: dict[str, SecretText] = {}
    for number, line in enumerate(
        text.split("\n"), 1
    ):  # as shells do: what Windows ends lines with belongs to the value
        if not line.strip() or line.startswith("#"):
            continue
        parts = _LINE.fullmatch(line.rstrip(" \t"))
        if parts is None:
            raise ValueError(f"line {number} is neither NAME=value nor NAME='value' (with no ' and no \\ in it).")
        name, value = parts[1], parts[2] or parts[3] or ""
        if name in found:
            raise ValueError(f"line {number} sets {name} again.")
        found[name] = SecretText(value)
    return {name: value for name, value in found.items() if value}


def line_of(name: str, value: str) -> str:
    """Write a variable's line.

    Raises:
        ValueError: no form of the value is read the same by all.
    """
    if re.fullmatch(_PLAIN, value):
        return f"{name}={value}"
    if re.fullmatch(_QUOTED, value):
        return f"{name}='{value}'"
    raise ValueError(f"{name} holds ', \\ or what is not printable ASCII: percent-encode it.")


def create(path: Path, text: str) -> None:
    """Write a file that only its owner reads, and that was not there.

    Raises:
        FileExistsError: it was.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        _write(descriptor, text)
    except OSError:
        path.unlink()  # half a file of keys
        raise


def append(path: Path, text: str) -> None:
    """Write behind what a file has that only its owner reads.

    Raises:
        PermissionError: others may read it, too.
    """
    if path.stat().st_mode & 0o077:
        raise PermissionError(f"{path} may be read by others, and is to hold keys: chmod 600 {path}")
    _write(os.open(path, os.O_WRONLY | os.O_APPEND), text)


def replace(path: Path, text: str) -> None:
    """Put a file, which only its owner reads, in the place of the one that may be there."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    create(fresh, text)
    fresh.replace(path)


def _write(descriptor: int, text: str) -> None:
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
