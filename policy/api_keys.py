"""The form of an API key: `alw_`, 32 random base62 characters, 6 of CRC-32. Pure.

The checksum recognises typos without a query, and lets scanners find leaked keys. Source: docs/contract.md, "Keys".
"""

import hashlib
import re
import secrets
import string
import zlib

_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_KEY = re.compile(r"alw_([0-9A-Za-z]{32})([0-9A-Za-z]{6})", re.ASCII)
_RANDOM_LENGTH = 32
_CHECKSUM_LENGTH = 6


def new_key() -> str:
    """Make a key with 190 bits of randomness."""
    body = "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM_LENGTH))
    return f"alw_{body}{_checksum(body)}"


def is_well_formed(key: str) -> bool:
    """Tell whether a text has a key's form and checksum."""
    match = _KEY.fullmatch(key)
    return match is not None and secrets.compare_digest(_checksum(match[1]), match[2])


def digest(key: str) -> bytes:
    """Compute the SHA-256 of a key (32 bytes), which is what is stored. A random key needs no slow hash."""
    return hashlib.sha256(key.encode()).digest()


def _checksum(body: str) -> str:
    value = zlib.crc32(body.encode())
    letters = []
    for _ in range(_CHECKSUM_LENGTH):
        value, letter = divmod(value, len(_ALPHABET))
        letters.append(_ALPHABET[letter])
    return "".join(reversed(letters))
