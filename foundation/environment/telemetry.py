"""Read where errors and traces are reported to. Both are the operator's own: their addresses may be private. Pure.

A fault is raised as a `ValueError` that never holds the address, which may hold a key.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

from foundation.kernel.secrecy import SecretText

T = TypeVar("T")

_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_EXTRA = "needs packages that are not installed: pip install --require-hashes -r requirements-telemetry.txt"


def read_dsn(text: str) -> SecretText:
    """Read a DSN of Sentry: `https://KEY@HOST/PROJECT`; a relay on this machine may be spoken to in the clear.

    Raises:
        ValueError: it is none.
    """
    parts = _split(text)
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _THIS_MACHINE)
    if not is_safe or not parts.hostname or not parts.username or not parts.path.rpartition("/")[2].isdecimal():
        raise ValueError("is not a DSN such as https://KEY@HOST/PROJECT.")
    return SecretText(text)


def read_collector(text: str) -> str:
    """Read the base address of a collector of OTLP over HTTP: `http://` or `https://`, without a trailing slash.

    Raises:
        ValueError: it is none.
    """
    parts = _split(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise ValueError("is not an http:// or https:// address without a user and a query.")
    return text.rstrip("/")


def read_headers(text: str) -> dict[str, SecretText]:
    """Read headers for the collector as OpenTelemetry writes them: `name=value,name=value`, percent-encoded.

    Raises:
        ValueError: it is none.
    """
    pairs = [part.strip().partition("=") for part in text.split(",") if part.strip()]
    if not all(name.strip() and equals for name, equals, _ in pairs):
        raise ValueError("is not a list such as name=value,name=value.")
    return {unquote(name.strip()).lower(): SecretText(unquote(value.strip())) for name, _, value in pairs}


def _split(text: str) -> SplitResult:
    """Split an address; what cannot be split is none. Python's own error would repeat it."""
    try:
        return urlsplit(text)
    except ValueError:
        return urlsplit("")


def with_package(module: str, read: Callable[[str], T]) -> Callable[[str], T]:
    """Make what reads the text of a process that reports by a package, which has to be there."""

    def read_with(text: str) -> T:
        value = read(text)
        try:
            is_there = find_spec(module) is not None
        except ModuleNotFoundError:
            is_there = False
        if not is_there:
            raise ValueError(_EXTRA)
        return value

    return read_with
