"""Take the secrets of this process out of what it tells. Pure.

No secret should get into a log line or a report in the first place; this is for the message of a library that holds
one. So it looks for the secrets as they were set, and for the parts of addresses.
"""

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote, urlsplit

from foundation.kernel.secrecy import HIDDEN, SecretText

# Shorter texts are no secrets, and stand in many lines.
_SHORTEST = 6
_URL = re.compile(r"[a-z+]+://[^,\s]+", re.IGNORECASE)
# Secrets of others, by their forms: keys of the API, secrets of webhooks, one-time links of staff.
_BY_FORM = re.compile(r"\b(alw_|whsec_)[\w+/=-]{8,}|(?<=/login/password/)[^\s\"'?#]+")
_OF_DATABASES = ("postgres", "postgresql", "redis", "rediss")

_known: tuple[SecretText, ...] = ()


def know(values: Iterable[str]) -> None:
    """Hide these values of variables, and the secret parts of them, from now on."""
    global _known  # noqa: PLW0603 - a process has one configuration
    parts = {part for value in values for part in _parts(value)}
    found = {part for part in parts if len(part) >= _SHORTEST}
    _known = tuple(SecretText(part) for part in sorted(found, key=len, reverse=True))


def hide(text: str) -> str:
    """Return a text without the secrets."""
    for secret in _known:
        if secret in text:
            text = text.replace(secret, HIDDEN)
    return _BY_FORM.sub(HIDDEN, text)


def hide_in_line(text: str) -> str:
    """Return a text that others wrote as one line without the secrets, and without anything that a terminal obeys."""
    return " ".join("".join(one if one.isprintable() else " " for one in hide(text)).split())


def hide_everywhere(value: Any) -> Any:
    """Return a JSON value without the secrets."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, dict):
        return {hide(str(name)): hide_everywhere(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [hide_everywhere(member) for member in value]
    return value


def _parts(value: str) -> Iterable[str]:
    """Yield what is secret of a variable: keys and texts of a list; of addresses passwords, paths and queries."""
    for text in _URL.sub("", value).split(","):
        bare = text.strip().removeprefix("0x")
        yield from (bare, bare.lower())
    for url in [*_URL.findall(value), value]:  # a password may have a comma
        try:
            address = urlsplit(url)
        except ValueError:
            continue
        secret = [address.password or ""]
        if address.scheme.partition("+")[0] not in _OF_DATABASES:
            secret += [address.username or "", address.path.strip("/"), address.query]
            secret += [part.partition("=")[2] for part in address.query.split("&")]
        yield from secret
        yield from map(unquote, secret)
