"""What a request bears as an API key: the front queues by it, Django verifies it, and both read it here."""

from collections.abc import Mapping
from typing import Any

_SCHEMES = ("bearer", "api-key")
_WHITE_SPACE = " \t"


def sent_credentials(meta: Mapping[str, Any]) -> frozenset[str]:
    """List what was sent, without the text around it; what bears another scheme is "". Empty: no header bears one.

    Source: RFC 9110, 5.5 (white space around a value is ASCII's) and 11.4.
    """
    sent: set[str] = set()
    authorization = meta.get("HTTP_AUTHORIZATION")
    if authorization is not None:
        scheme, _, key = authorization.strip(_WHITE_SPACE).partition(" ")
        sent.add(key.strip(_WHITE_SPACE) if scheme.lower() in _SCHEMES else "")
    header = meta.get("HTTP_X_API_KEY")
    if header is not None:
        sent.add(header.strip(_WHITE_SPACE))
    return frozenset(sent)
