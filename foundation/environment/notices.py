"""Read where notices go: a mail server, addresses of chat channels, and the console that their links lead to. Pure.

A fault is raised as a `ValueError` that never holds the address, which may hold a password.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from foundation.kernel.secrecy import SecretText

# Those who are told of alarms.
NOTICE_ROLES = ("finance", "operations", "administrator")
_PORTS = {"smtps": 465, "smtp": 587}
_BASE_URL = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?/?", re.ASCII)


@dataclass(frozen=True, slots=True)
class MailServer:
    """A mail server, and how it is spoken to: TLS from the first byte, STARTTLS, or neither. Without a host: none."""

    host: str = ""
    port: int = 0
    user: str = ""
    password: str = SecretText()
    is_tls: bool = False
    is_starttls: bool = False


def read_mail_server(url: str) -> MailServer:
    """Read the URL of a mail server: smtps:// speaks TLS from the first byte, smtp:// STARTTLS; `?tls=no` neither.

    Raises:
        ValueError: it is none.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS[parts.scheme]
    except (ValueError, KeyError):
        raise ValueError("is not an smtp:// or smtps:// URL.") from None
    if not parts.hostname or parts.path not in ("", "/") or parts.fragment:
        raise ValueError("is not the URL of a server, without a path.")
    if parts.query not in ("", "tls=no") or (parts.query and parts.scheme == "smtps"):
        raise ValueError("has an option that means nothing: smtp:// takes tls=no.")
    return MailServer(
        parts.hostname,
        port,
        unquote(parts.username or ""),
        SecretText(unquote(parts.password or "")),
        is_tls=parts.scheme == "smtps",
        is_starttls=parts.scheme == "smtp" and not parts.query,
    )


def read_channels(text: str, *, names: Collection[str], check: Callable[[str], str]) -> dict[str, SecretText]:
    """Read a list of `name=URL` with commas. `check` returns a URL, or raises a ValueError that says what is wrong.

    Raises:
        ValueError: it is none, has a name that is not known or that it has twice, or a URL is wrong.
    """
    found: dict[str, SecretText] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, url = part.partition("=")
        if name not in names or name in found:
            raise ValueError(
                f"is not a list such as {next(iter(names))}=https://…, with each of {', '.join(names)} once."
            )
        try:
            found[name] = SecretText(check(url))
        except ValueError as error:
            raise ValueError(f"has a URL of {name} that is refused: {error}") from None
    return found


def read_base_url(url: str) -> str:
    """Read the address that stands before the paths of pages.

    Raises:
        ValueError: it is none, or has a path.
    """
    if not _BASE_URL.fullmatch(url):
        raise ValueError("is not an https:// address without a path.")
    return url.removesuffix("/")
