"""Read the texts of variables strictly. Pure. A fault is a `ValueError` that says what is wrong, and never the text.

The casts of django-environ take nearly anything for a truth value or a number, and repeat what they refuse.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from foundation.kernel.secrecy import Secret, SecretText

SECP256K1_ORDER = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")
_KEY_LENGTH = 32
# No count has more digits: the database holds no larger number.
_MOST_DIGITS = 18
_SHORTEST_TOKEN = 16
_WARNING = re.compile(r"[a-z_]+\.W\d+", re.ASCII)
# What a Host header may hold, without a port; such a name behind a dot, or `*`.
_HOST = re.compile(r"\*|\.?[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\]", re.ASCII | re.IGNORECASE)
_DECIMAL = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?", re.ASCII)


def read_flag(text: str) -> bool:
    """Read true or false."""
    if text.lower() not in (*_TRUE, *_FALSE):
        raise ValueError("is neither true nor false.")
    return text.lower() in _TRUE


def one_of(*words: str) -> Callable[[str], str]:
    """Make what reads one of some words."""

    def read(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(f"is none of {', '.join(words)}.")
        return text.lower()

    return read


def whole_number(*, least: int = 1, most: int | None = None) -> Callable[[str], int]:
    """Make what reads a whole number within bounds."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdecimal() or len(text) > _MOST_DIGITS or int(text) < least:
            raise ValueError(f"is not a whole number of at least {least}.")
        if most is not None and int(text) > most:
            raise ValueError(f"is not a whole number of at most {most}.")
        return int(text)

    return read


def read_decimal(text: str) -> Decimal:
    """Read a plain decimal number of at least 0."""
    if not _DECIMAL.fullmatch(text):
        raise ValueError("is not a decimal number of at least 0.")
    return Decimal(text)


def read_decimal_above_0(text: str) -> Decimal:
    """Read a plain decimal number above 0."""
    if not read_decimal(text):
        raise ValueError("is not a decimal number above 0.")
    return Decimal(text)


def read_texts(text: str) -> list[str]:
    """Read a list with commas, which may be empty."""
    return [part.strip() for part in text.split(",") if part.strip()]


def read_secret_texts(text: str) -> list[SecretText]:
    """Read a list of secrets with commas, which may be empty."""
    return [SecretText(part) for part in read_texts(text)]


@dataclass(frozen=True, slots=True)
class Key:
    """What reads a secret of `length` bytes in hex; as a number it must be at least 1, and `below` a bound."""

    length: int = _KEY_LENGTH
    below: int | None = None

    def __call__(self, text: str) -> Secret:
        try:
            key = Secret.fromhex(text.removeprefix("0x"))
        except ValueError:
            key = Secret()
        number = int.from_bytes(key, "big")
        if len(key) != self.length or not number or (self.below is not None and number >= self.below):
            raise ValueError(f"is not a key of {self.length} bytes in hex.")
        return key


SECP256K1_KEY = Key(below=SECP256K1_ORDER)


def read_keys(text: str) -> list[Secret]:
    """Read a list of keys of 32 bytes in hex, which may be empty."""
    try:
        keys = [Secret.fromhex(part.removeprefix("0x")) for part in read_texts(text)]
    except ValueError:
        keys = [Secret()]
    if any(len(key) != _KEY_LENGTH for key in keys):
        raise ValueError(f"is not a list of keys of {_KEY_LENGTH} bytes in hex.")
    return keys


def read_warnings(text: str) -> list[str]:
    """Read the ids of the warnings of `check` that the operator has accepted; errors cannot be accepted."""
    ids = read_texts(text)
    if not all(_WARNING.fullmatch(one) for one in ids):
        raise ValueError("is not a list of warnings' ids, such as allowance.W001.")
    return ids


def read_hosts(text: str) -> list[str]:
    """Read a list of host names with commas."""
    hosts = read_texts(text)
    if not hosts:
        raise ValueError("is not set.")
    if not all(_HOST.fullmatch(host) for host in hosts):
        raise ValueError("is not a list of host names, without https:// and without ports.")
    return hosts


def read_token(text: str) -> SecretText:
    """Read a secret that others are given to ask with."""
    if len(text) < _SHORTEST_TOKEN:
        raise ValueError(f"is shorter than {_SHORTEST_TOKEN} characters: it could be guessed.")
    return SecretText(text)
