"""Write requests: bodies as bytes that stay the same in every attempt, amounts that were never floats, safe paths."""

import json
import secrets
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from allowance_client.steps import Request

MAX_KEY_LENGTH = 255
Amount = Decimal | str | int


def new_idempotency_key() -> str:
    """Make a key that nobody can guess: a random UUID. Keep it where a crash does not reach before you pay with it."""
    return str(uuid.UUID(bytes=secrets.token_bytes(16), version=4))


def check_idempotency_key(key: str) -> str:
    """Return a key that the API takes as it is.

    Raises:
        ValueError: it is not 1 to 255 printable ASCII characters, or has spaces or quotes around it.
    """
    if not (0 < len(key) <= MAX_KEY_LENGTH and key.isascii() and key.isprintable() and key == key.strip(' "')):
        raise ValueError(
            "An idempotency key is 1 to 255 printable ASCII characters, without spaces or quotes around it."
        )
    return key


def following_key(key: str, number: int) -> str:
    """Derive the key of a purchase's next request from its first key: the same one in every run of a program."""
    suffix = f"/{number}"
    return f"{key if len(key) + len(suffix) <= MAX_KEY_LENGTH else sha256(key.encode()).hexdigest()}{suffix}"


def write_amount(amount: Amount) -> str:
    """Write an amount as the API takes it; what is not plain is left for the API to refuse.

    Raises:
        TypeError: it is a float, which cannot hold amounts, or no number at all.
        ValueError: it is not finite.
    """
    if isinstance(amount, bool) or not isinstance(amount, Decimal | str | int):
        raise TypeError(f'An amount is a Decimal or a text such as "0.50", not a {type(amount).__name__}.')
    if isinstance(amount, Decimal) and not amount.is_finite():
        raise ValueError("An amount is a finite number.")
    return f"{amount:f}" if isinstance(amount, Decimal) else str(amount)


def write_instant(instant: datetime) -> str:
    """Write a moment as the API does: UTC, three fraction digits.

    Raises:
        ValueError: it names no time zone.
    """
    if instant.tzinfo is None:
        raise ValueError("Give a moment with its time zone.")
    return f"{instant.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def path_of(collection: str, identifier: str, *rest: str) -> str:
    """Write the path of one thing.

    Raises:
        ValueError: this can be no id: it would be another path.
    """
    if identifier in {"", ".", ".."}:
        raise ValueError(f"{identifier!r} is no id.")
    return "/".join(["/v1", collection, quote(identifier, safe=""), *rest])


def get(path: str, query: Mapping[str, str | None] | None = None) -> Request:
    """Make a GET, without the parameters that are None."""
    return Request("GET", path, {name: value for name, value in (query or {}).items() if value is not None})


def post(
    path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None, extra_time_s: float = 0
) -> Request:
    """Make a POST of a JSON object. Raises `TypeError`, `ValueError`: something in it is not JSON."""
    data = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    return Request(
        "POST",
        path,
        body=data,
        headers={"Content-Type": "application/json", **(headers or {})},
        extra_time_s=extra_time_s,
    )
