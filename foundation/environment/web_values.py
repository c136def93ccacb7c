"""Read what `web` alone has: the host names that it answers, and the token of its metrics. Pure.

Each raises a ValueError that says what is wrong, and not the value.
"""

import re

from foundation.environment.casts import read_texts
from foundation.kernel.secrecy import SecretText

_SHORTEST_TOKEN = 16
# What a Host header may hold, without a port; such a name behind a dot, or `*`.
_HOST = re.compile(r"\*|\.?[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\]", re.ASCII | re.IGNORECASE)


def read_hosts(text: str) -> list[str]:
    """Read a list of host names with commas."""
    hosts = read_texts(text)
    if not hosts:
        raise ValueError("is not set.")
    if not all(_HOST.fullmatch(host) for host in hosts):
        raise ValueError("is not a list of host names, without https:// and without ports.")
    return hosts


def read_token(text: str) -> str:
    """Read a secret that others are given to ask with."""
    if len(text) < _SHORTEST_TOKEN:
        raise ValueError(f"is shorter than {_SHORTEST_TOKEN} characters: it could be guessed.")
    return SecretText(text)
