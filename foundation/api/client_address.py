"""The address that a request comes from, which a client cannot choose.

Behind proxies it is the address that the outermost of ours saw: each appends the address of its own client to
X-Forwarded-For, so it stands as many places from the right as there are proxies. What stands further left is whatever
the client sent.
"""

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from django.conf import settings


def client_address(meta: Mapping[str, Any]) -> str | None:
    """Find the address of a request's client from its environment (`META`), in its one form.

    None: it is not known, because the request came past a proxy, or because what the proxy wrote is no address.
    """
    proxies = settings.TRUSTED_PROXIES
    if not proxies:
        return _read(str(meta.get("REMOTE_ADDR", "")))
    seen = str(meta.get("HTTP_X_FORWARDED_FOR", "")).split(",")
    return _read(seen[-proxies].strip()) if len(seen) >= proxies else None


def _read(text: str) -> str | None:
    """Read an address; some proxies write a port behind it."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address: IPv4Address | IPv6Address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return str(getattr(address, "ipv4_mapped", None) or address)
