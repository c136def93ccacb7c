"""What the environment says. Nothing is read on import, and nothing here prints a value."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from allowance_client.addresses import read_base_url

_KEY = re.compile(r"alw_[0-9A-Za-z]{38}", re.ASCII)
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")


class BadSetting(ValueError):
    """A variable is missing or malformed; the text names it, and never shows a key."""


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """`url`: where `web` is. `hosts`: the names that this server is asked by; `origins`: pages that may ask it."""

    url: str
    hosts: tuple[str, ...]
    origins: tuple[str, ...]


def read_url(environment: Mapping[str, str]) -> str:
    """Read ALLOWANCE_URL, where the API is.

    Raises:
        BadSetting: missing, or no address that a key may be sent to.
    """
    url = environment.get("ALLOWANCE_URL", "").strip()
    if not url:
        raise BadSetting("Set ALLOWANCE_URL to the address of Allowance, such as https://pay.example.com.")
    try:
        return str(read_base_url(url, allow_http=False))
    except ValueError as error:
        raise BadSetting(f"ALLOWANCE_URL: {error}") from None


def read_key(environment: Mapping[str, str]) -> str:
    """Read ALLOWANCE_API_KEY, the key of one agent; raises `BadSetting`."""
    key = environment.get("ALLOWANCE_API_KEY", "").strip()
    if not is_key(key):
        raise BadSetting("Set ALLOWANCE_API_KEY to the API key of one agent: alw_ and 38 letters and digits.")
    return key


def is_key(text: str) -> bool:
    """Tell whether a text has the form of an API key."""
    return _KEY.fullmatch(text) is not None


def read_http_settings(environment: Mapping[str, str]) -> HttpSettings:
    """Read what a server needs that is reached over HTTP; raises `BadSetting`."""
    hosts = _read_list(environment, "MCP_ALLOWED_HOSTS") or _LOCAL_HOSTS
    if any("*" in host or "/" in host for host in hosts):
        raise BadSetting("MCP_ALLOWED_HOSTS holds host names, separated by commas, such as pay.example.com.")
    return HttpSettings(read_url(environment), tuple(hosts), tuple(_read_list(environment, "MCP_ALLOWED_ORIGINS")))


def _read_list(environment: Mapping[str, str], name: str) -> list[str]:
    return [part.strip() for part in environment.get(name, "").split(",") if part.strip()]
