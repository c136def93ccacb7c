"""Read the environment strictly, and collect all faults instead of stopping at the first."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar

from foundation.environment.connections import OF_REPLICA, POSTGRESQL, read_database
from foundation.environment.process_types import EVERY_TYPE, ProcessType, is_reader
from foundation.environment.redis_addresses import Redis, read_redis
from foundation.environment.variables import find_unknown
from foundation.kernel.secrecy import Secret, SecretText

T = TypeVar("T")

SECP256K1_ORDER = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")
_KEY_LENGTH = 32
# No count has more digits: the database holds no larger number.
_MOST_DIGITS = 18
_WARNING = re.compile(r"[a-z_]+\.W\d+", re.ASCII)
_DECIMAL = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?", re.ASCII)


class Configuration:
    """The environment, or other `variables`, as far as a process of some `types` reads them.

    `problems` has a sentence for each variable that is missing or malformed; never its value. `names` are those that
    were asked for, whether this process reads them or not.
    """

    def __init__(self, types: frozenset[ProcessType] = EVERY_TYPE, variables: Mapping[str, str] | None = None) -> None:
        self.problems: list[str] = []
        self.names: set[str] = set()
        self.types = types
        self._variables = os.environ if variables is None else variables

    def is_read(self, name: str) -> bool:
        """Tell whether this process reads a variable."""
        self.names.add(name)
        return is_reader(self.types, name)

    def optional(self, name: str) -> str:
        """Read a variable that need not be set; "" if it is not, or if this process does not read it."""
        return self._variables.get(name, "") if self.is_read(name) else ""

    def texts(self, name: str) -> list[str]:
        """Read a list with commas, which may be empty."""
        return [part.strip() for part in self.optional(name).split(",") if part.strip()]

    def secret_texts(self, name: str) -> list[str]:
        """Read a list of secrets with commas, which may be empty."""
        return [SecretText(text) for text in self.texts(name)]

    def text(self, name: str) -> str:
        """Read a secret that must be set where it is read; "" if it is not."""
        value = self.optional(name)
        if not value and self.is_read(name):
            self.problems.append(f"{name} is not set.")
        return SecretText(value)

    def flag(self, name: str, *, default: bool) -> bool:
        """Read true or false; any other text is a problem."""
        value = self.optional(name).lower()
        if value not in ("", *_TRUE, *_FALSE):
            self.problems.append(f"{name} is neither true nor false.")
        return value in _TRUE if value else default

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """Read one of some words; the first is the default."""
        value = self.optional(name).lower() or choices[0]
        if value not in choices:
            self.problems.append(f"{name} is none of {', '.join(choices)}.")
        return value if value in choices else choices[0]

    def development(self, name: str, *, is_embedded: bool) -> bool:
        """Read true or false, false by default, of a switch that may be true on a developer's machine only."""
        is_set = self.flag(name, default=False)
        if is_set and not is_embedded:
            self.problems.append(f"{name} is for development: it must not be set without EMBEDDED.")
        return is_set and is_embedded

    def count(self, name: str, *, default: int, least: int = 1, most: int | None = None) -> int:
        """Read a whole number of at least 1, or within other bounds."""
        number = self.whole_number(name, least=least)
        if number is not None and most is not None and number > most:
            self.problems.append(f"{name} is not a whole number of at most {most}.")
        return default if number is None else number

    def whole_number(self, name: str, *, least: int) -> int | None:
        """Read a whole number of at least `least`; None if it is not set or is malformed."""
        value = self.optional(name)
        if not value:
            return None
        if not value.isascii() or not value.isdecimal() or len(value) > _MOST_DIGITS or int(value) < least:
            self.problems.append(f"{name} is not a whole number of at least {least}.")
            return None
        return int(value)

    def amount(self, name: str, *, default: str) -> Decimal:
        """Read a plain decimal number of at least 0."""
        value = self.optional(name) or default
        if not _DECIMAL.fullmatch(value):
            self.problems.append(f"{name} is not a decimal number of at least 0.")
            return Decimal(default)
        return Decimal(value)

    def budget(self, name: str) -> Decimal | None:
        """Read a plain decimal number above 0; None if it is not set."""
        if not self.optional(name):
            return None
        amount = self.amount(name, default="0")
        if not amount:
            self.problems.append(f"{name} is not a decimal number above 0.")
        return amount

    def key(self, name: str, length: int, *, below: int | None = None) -> Secret | None:
        """Read a secret of `length` bytes in hex; as a number it must be at least 1 and below a bound if there is one.

        None: this process does not read it, or it is missing or malformed. There is no default.
        """
        value = self.text(name)
        try:
            key = Secret.fromhex(value.removeprefix("0x"))
        except ValueError:
            key = Secret()
        number = int.from_bytes(key, "big")
        if len(key) == length and number and (below is None or number < below):
            return key
        if value:
            self.problems.append(f"{name} is not a key of {length} bytes in hex.")
        return None

    def optional_key(
        self, name: str, length: int, *, is_needed: bool = False, below: int | None = None
    ) -> Secret | None:
        """Read a key that need not be set, unless something needs it."""
        return self.key(name, length, below=below) if is_needed or self.optional(name) else None

    def keys(self, name: str) -> list[Secret]:
        """Read a list of keys of 32 bytes in hex, which may be empty."""
        try:
            keys = [Secret.fromhex(text.removeprefix("0x")) for text in self.texts(name)]
        except ValueError:
            keys = [Secret()]
        if any(len(key) != _KEY_LENGTH for key in keys):
            self.problems.append(f"{name} is not a list of keys of {_KEY_LENGTH} bytes in hex.")
            return []
        return keys

    def database(self, name: str) -> dict[str, Any]:
        """Read a PostgreSQL URL into Django's form; without a server if there is none."""
        return self._connection(name, read_database, {"ENGINE": POSTGRESQL})

    def replica(self, name: str) -> dict[str, dict[str, Any]]:
        """Read the PostgreSQL URL of a read replica, if there is one, by the name of the connection to it."""
        if not self.optional(name):
            return {}
        return {"replica": self._connection(name, partial(read_database, options=OF_REPLICA), {"ENGINE": POSTGRESQL})}

    def redis(self, name: str) -> Redis:
        """Read a Redis URL for both Celery and our own client."""
        return self._connection(name, read_redis, Redis("", ""))

    def read(self, name: str, read: Callable[[str], T], nothing: T) -> T:
        """Read a variable that need not be set by a function; its ValueErrors say what is wrong, and not the value."""
        return self._connection(name, read, nothing) if self.optional(name) else nothing

    def _connection(self, name: str, read: Callable[[str], T], nothing: T) -> T:
        value = self.text(name)
        try:
            return read(value) if value else nothing
        except ValueError as error:
            self.problems.append(f"{name} {error}")
            return nothing

    def silenced_warnings(self, name: str) -> list[str]:
        """Read the ids of the warnings that the operator has accepted; errors cannot be accepted."""
        ids = self.texts(name)
        if not all(_WARNING.fullmatch(one) for one in ids):
            self.problems.append(f"{name} is not a list of warnings' ids, such as allowance.W001.")
        return [one for one in ids if _WARNING.fullmatch(one)]

    def refuse_unknown_names(self) -> None:
        """Add a problem for each variable that resembles one of ours. Call it when all are read."""
        self.problems += find_unknown(filter(self._variables.get, self._variables), self.names)
