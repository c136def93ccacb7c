"""Static checks of a webhook URL. Pure: the addresses behind the name are checked when an event is sent.

Source: docs/contract.md, "Services"; docs/background.md, "Webhook addresses".
"""

import ipaddress
import re
from urllib.parse import SplitResult, urlsplit

_LOCAL_SUFFIXES = (".local", ".internal", ".localhost", ".localdomain", ".lan", ".home.arpa")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)", re.ASCII)
_HTTPS_PORTS = {None, 443, 8443}
_FIRST_UNPRIVILEGED_PORT = 1024
_LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1"))


class WebhookUrlError(ValueError):
    """Say in a sentence why a text is not a webhook URL."""


def check_webhook_url(url: str, *, allow_loopback: bool = False) -> str:
    """Return the URL if it may be registered.

    With `allow_loopback`, which is for development, http to this machine may be registered, too.

    Raises:
        WebhookUrlError: not absolute https, or pointing at an address or a local name.
    """
    if not url.isascii() or not url.isprintable() or any(letter in url for letter in ' \\"<>^`{|}'):
        raise WebhookUrlError("Must be an absolute https URL in ASCII.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise WebhookUrlError("Must be an absolute https URL.") from error
    is_local = allow_loopback and parts.scheme == "http" and _is_loopback(parts.hostname or "")
    if (parts.scheme != "https" and not is_local) or not parts.hostname:
        raise WebhookUrlError("Must be an absolute https URL.")
    if "@" in parts.netloc:
        raise WebhookUrlError("Must not carry a user name or password.")
    if parts.fragment:
        raise WebhookUrlError("Must not carry a fragment.")
    if is_local:
        return url
    if port not in _HTTPS_PORTS and (port or 0) < _FIRST_UNPRIVILEGED_PORT:
        raise WebhookUrlError("Must use port 443, 8443, or one from 1024 on.")
    if "[" in parts.netloc:
        raise WebhookUrlError("Must name a host, not an IP address.")
    _check_host(_host_in(parts))
    return url


def host_of(url: str | None) -> str | None:
    """Name the host of a registered URL as DNS knows it: in lower case, without the dot at the end; None: no URL."""
    return None if url is None else _host_in(urlsplit(url))


def _host_in(parts: SplitResult) -> str:
    return (parts.hostname or "").removesuffix(".")


def _check_host(host: str) -> None:
    if _is_ip_literal(host):
        raise WebhookUrlError("Must name a host, not an IP address.")
    if "." not in host or host.endswith(_LOCAL_SUFFIXES):
        raise WebhookUrlError("Must name a public host.")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in host.split(".")):  # noqa: PLR2004 - RFC 1035
        raise WebhookUrlError("The host name is not valid.")


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return "%" not in host and any(address in network for network in _LOOPBACK)


def _is_ip_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        # 127.1, 0x7f.1, 2130706433 and the like: resolvers read them as IPv4.
        return bool(re.fullmatch(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*", host))
    return True
