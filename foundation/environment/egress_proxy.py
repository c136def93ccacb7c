"""Read the proxy that webhooks leave through. Pure. A fault is a `ValueError` that never holds its address."""

import base64
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from foundation.kernel.secrecy import SecretText

_PORTS = {"http": 80, "https": 443}
_NO_PROXY = "is not an http:// or https:// URL of a proxy, without a path."


@dataclass(frozen=True, slots=True)
class EgressProxy:
    """A proxy that is asked to `CONNECT`. `authorization`: the header's value that it wants; "": none.

    `certificates`: the file of the authorities that may certify it, if it is spoken to in TLS; "": the usual ones.
    """

    host: str
    port: int
    is_tls: bool = False
    authorization: str = SecretText()
    certificates: str = ""


def read_egress_proxy(url: str) -> EgressProxy:
    """Read the URL of a proxy, with a user name and password if it wants them.

    Raises:
        ValueError: it is none.
    """
    try:
        parts = urlsplit(url)
        default = _PORTS[parts.scheme]
        port = parts.port or default
    except (ValueError, KeyError):
        raise ValueError(_NO_PROXY) from None
    if not parts.hostname or parts.path not in ("", "/") or "#" in url:
        raise ValueError(_NO_PROXY)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if not options.keys() <= ({"ssl_ca_certs"} if parts.scheme == "https" else set()):
        raise ValueError("has an option that means nothing: https:// takes ssl_ca_certs=FILE.")
    authorization = ""
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {base64.b64encode(login.encode()).decode()}"
    return EgressProxy(
        parts.hostname, port, parts.scheme == "https", SecretText(authorization), options.get("ssl_ca_certs", "")
    )
