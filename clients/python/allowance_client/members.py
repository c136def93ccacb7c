"""Read the members of JSON objects: strict in what is needed, silent about what is unknown.

Later servers add members, so nothing here minds them.
"""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

_DEEPEST = 64  # levels of nesting; answers have a dozen
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)
_AMOUNT = re.compile(r"-?[0-9]{1,60}(\.[0-9]{1,60})?", re.ASCII)


class MalformedJson(ValueError):
    """Say in a sentence what a document lacks, or why it is none."""


def read_object(body: bytes) -> dict[str, Any]:
    """Parse a JSON object in which every member is named once.

    Raises:
        MalformedJson: it is none.
    """
    try:
        text = body.decode()
        _refuse_depth(text)
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except MalformedJson:
        raise
    except ValueError as error:
        raise MalformedJson("This is not JSON.") from error
    if not isinstance(value, dict):
        raise MalformedJson("This is not a JSON object.")
    return value


def read_instant(text: str) -> datetime:
    """Read a timestamp of the API: ISO 8601 with a zone.

    Raises:
        MalformedJson: it is none.
    """
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise MalformedJson(f"{text[:40]!r} is not a timestamp.") from error
    if instant.tzinfo is None:
        raise MalformedJson(f"{text[:40]!r} names no time zone.")
    return instant


class Members:
    """The members of one object. Every method raises `MalformedJson` if the member is not as its name says."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self._raw = raw

    def text(self, name: str) -> str:
        value = self._raw.get(name)
        if not isinstance(value, str):
            raise MalformedJson(f"The member {name} is not a text.")
        return value

    def optional_text(self, name: str) -> str | None:
        return None if self._raw.get(name) is None else self.text(name)

    def integer(self, name: str) -> int:
        value = self._raw.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise MalformedJson(f"The member {name} is not an integer.")
        return value

    def optional_integer(self, name: str) -> int | None:
        return None if self._raw.get(name) is None else self.integer(name)

    def optional_boolean(self, name: str) -> bool | None:
        value = self._raw.get(name)
        if value is not None and not isinstance(value, bool):
            raise MalformedJson(f"The member {name} is neither true nor false.")
        return value

    def amount(self, name: str) -> Decimal:
        text = self.text(name)
        if not _AMOUNT.fullmatch(text):
            raise MalformedJson(f"The member {name} is not an amount.")
        return Decimal(text)

    def optional_amount(self, name: str) -> Decimal | None:
        return None if self._raw.get(name) is None else self.amount(name)

    def instant(self, name: str) -> datetime:
        return read_instant(self.text(name))

    def optional_instant(self, name: str) -> datetime | None:
        return None if self._raw.get(name) is None else self.instant(name)

    def texts(self, name: str) -> tuple[str, ...]:
        values = self._raw.get(name)
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise MalformedJson(f"The member {name} is not a list of texts.")
        return tuple(values)

    def optional_texts(self, name: str) -> tuple[str, ...] | None:
        return None if self._raw.get(name) is None else self.texts(name)

    def object(self, name: str) -> Mapping[str, Any]:
        value = self._raw.get(name)
        if not isinstance(value, dict):
            raise MalformedJson(f"The member {name} is not an object.")
        return value

    def optional_object(self, name: str) -> Mapping[str, Any] | None:
        return None if self._raw.get(name) is None else self.object(name)

    def raw_objects(self, name: str) -> tuple[Mapping[str, Any], ...]:
        values = self._raw.get(name)
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise MalformedJson(f"The member {name} is not a list of objects.")
        return tuple(values)

    def optional_raw_objects(self, name: str) -> tuple[Mapping[str, Any], ...]:
        return () if self._raw.get(name) is None else self.raw_objects(name)

    def optional_objects(self, name: str) -> "tuple[Members, ...]":
        return tuple(map(Members, self.optional_raw_objects(name)))


def _refuse_depth(text: str) -> None:
    """Refuse what is nested too deeply before it is parsed: a library may have lifted the limit of recursion."""
    if text.count("[") + text.count("{") <= _DEEPEST:
        return
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth > _DEEPEST:
            raise MalformedJson("This is nested too deeply.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise MalformedJson("An object names a member twice.")
    return members


def _refuse_constant(text: str) -> None:
    raise MalformedJson(f"{text} is not JSON.")
