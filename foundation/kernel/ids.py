"""Identifiers: a prefix and a 26-character lower-case ULID, so that ids sort by the time they were made.

Source: docs/contract.md, "Ids"; layout of the ULID specification (48 bits of milliseconds, 80 of randomness).
"""

import secrets
from datetime import UTC, datetime, timedelta

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32
_VALUES = {letter: value for value, letter in enumerate(_ALPHABET)}
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_LENGTH = 26
_RANDOM_BITS = 80
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def new_id(prefix: str, at: datetime, *, after: str | None = None) -> str:
    """Make an id for the instant `at` (UTC, millisecond precision).

    With `after`, an earlier id of the same prefix made no later than `at`, the new one sorts behind it: within
    one millisecond it counts on from it.
    """
    value = ((at - EPOCH) // _MILLISECOND) << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
    if after:
        previous = _decode(after[-_LENGTH:])
        if value <= previous:
            value = previous + 1
    return f"{prefix}_{_encode(value)}"


def time_of(identifier: str) -> datetime:
    """Tell the instant (UTC, millisecond precision) that an id was made for."""
    return EPOCH + (_decode(identifier[-_LENGTH:]) >> _RANDOM_BITS) * _MILLISECOND


def first_id(prefix: str, at: datetime) -> str:
    """Tell the lowest id that can be made for an instant: with it, a span of time becomes a span of ids."""
    return f"{prefix}_{_encode(((at - EPOCH) // _MILLISECOND) << _RANDOM_BITS)}"


def _encode(value: int) -> str:
    pairs = []
    for _ in range(_LENGTH // 2):
        value, pair = divmod(value, 1024)
        pairs.append(_PAIRS[pair])
    return "".join(reversed(pairs))


def _decode(text: str) -> int:
    value = 0
    for letter in text:
        value = value << 5 | _VALUES[letter]
    return value
