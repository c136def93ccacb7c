"""Look at the keys: equal to each other, guessable, or known to the world. None is ever shown."""

import json
import os
from collections.abc import Iterator
from hashlib import sha256
from itertools import combinations
from pathlib import Path

from django.conf import settings

from foundation.environment.casts import Key
from foundation.environment.table import SETTINGS
from operators.doctor.diagnoses import Diagnosis, error, ok, warning

# Earlier keys are set only while `rotate_keys` exchanges them.
_KEYS = ("SECRET_KEY", *(one.name for one in SETTINGS if isinstance(one.cast, Key) and not one.name.startswith("OLD_")))
# On a test network one wallet may well pay for deploying and for deposits.
_MAY_BE_EQUAL = {("DEPLOYER_KEY", "DEPOSIT_KEY")}
_KEY_BYTES = 32
# A random key has fewer different bytes once in far more installations than there will be.
_FEWEST_BYTES, _FEWEST_CHARACTERS = 12, 40
# SHA-256 of keys that everybody knows: the accounts of anvil and Hardhat, and the seed of their mnemonic.
_PUBLISHED = Path(__file__).with_name("known_keys.txt")
_MAKE = "python manage.py rotate_keys exchanges keys in use: docs/operate/keys.md"


def find_equal_keys() -> Iterator[Diagnosis]:
    """Find keys that are one and the same: whoever steals one has both, and either alone would move money."""
    parts = {name: _parts(name) for name in _KEYS if os.environ.get(name)}
    equal = [pair for pair in combinations(parts, 2) if parts[pair[0]] & parts[pair[1]] and pair not in _MAY_BE_EQUAL]
    for one, other in equal:
        yield error(
            f"{one}, {other}",
            f"{one} and {other} are the same key, or one contains the other.",
            f"Make another {other}. {_MAKE}",
        )
    if not equal:
        yield ok("equal keys", "No two keys are the same.")


def find_known_keys() -> Iterator[Diagnosis]:
    """Find keys that can be guessed: of the embedded mode, of public tools, or hardly random."""
    names = [name for name in _KEYS if os.environ.get(name)]
    found = [(name, why) for name in names if (why := _why_known(name))]
    is_real = any(not served.chain.is_test for served in settings.CHAINS.values())
    for name, why in found:
        yield (error if is_real else warning)(name, f"{name} {why}", f"Make another one. {_MAKE}")
    if not found:
        yield ok("known keys", "No key is of the embedded mode, published, or guessable.")


def _why_known(name: str) -> str:
    if {sha256(part).hexdigest() for part in _parts(name)} & {*_PUBLISHED.read_text().split()}:
        return "is published: every developer's node has its money taken."
    if not settings.EMBEDDED and os.environ[name] in _embedded_keys():
        return "is the one of the embedded mode's folder on this machine, which other programs read."
    if name == "SECRET_KEY":
        text = os.environ[name]
        is_weak = len(text) < _FEWEST_CHARACTERS or len({*text}) < _FEWEST_BYTES or text.startswith("django-insecure")
    else:
        is_weak = len({*_bytes(name)}) < _FEWEST_BYTES
    return "is hardly random: it can be guessed." if is_weak else ""


def _parts(name: str) -> set[bytes]:
    """Cut a key into what could be a key by itself: a seed of 64 bytes is its own halves, too."""
    key = _bytes(name)
    return {key, *(key[start : start + _KEY_BYTES] for start in range(0, len(key), _KEY_BYTES))} - {b""}


def _bytes(name: str) -> bytes:
    text = os.environ[name]
    try:
        return bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        return text.encode()


def _embedded_keys() -> set[str]:
    try:
        kept = json.loads((settings.BASE_DIR / ".data" / "keys.json").read_text())
        return {str(value) for value in kept.values()}
    except (OSError, ValueError, AttributeError):
        return set()
