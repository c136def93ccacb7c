"""JSON in and out: a strict reader, and the one canonical form that is hashed and signed.

The canonical form is RFC 8785; the reader accepts what that form can hold (I-JSON, RFC 7493): unique
members, no U+0000, no lone surrogates, finite numbers, integers up to 2^53 - 1, however they are written.
Whatever it accepts is written in that form and read again as an equal value, any number of times.
"""

import hashlib
import json
import math
import re
from contextlib import suppress
from typing import Any, NoReturn

import rfc8785

_LARGEST_INTEGER = 2**53 - 1
# From here on RFC 8785 (3.2.2.3, as ECMAScript) writes a number with an exponent; a whole one below as an integer.
_EXPONENT_FROM = 1e21
_TOO_LONG = "The body holds an integer beyond 2^53 - 1; send it as a string."
_DEEPEST = 64  # levels of nesting; the contract's own limits are lower, this one keeps recursion harmless
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)


class JsonError(ValueError):
    """Say in a sentence why a body is not JSON that we can store."""


def read_json(body: bytes) -> Any:
    """Parse a body strictly.

    Raises:
        JsonError: malformed, not UTF-8, nested too deeply, or outside what the canonical form can hold.
    """
    try:
        text = body.decode("utf-8-sig")
        # Before anything recurses: py_ecc, which eth_account brings, lifts Python's limit, and the stack ends first.
        if text.count("[") + text.count("{") > _DEEPEST:
            _refuse_depth(text)
        value = _decoder.decode(text)
        if "\\u" in text:  # only an escape can smuggle in what UTF-8 itself refuses
            _refuse_unstorable_text(value)
    except JsonError:
        raise
    except UnicodeDecodeError as error:
        raise JsonError("The body is not UTF-8.") from error
    except ValueError as error:
        raise JsonError("The body is not valid JSON.") from error
    return value


def canonical_json(value: Any) -> bytes:
    """Write a JSON value in its RFC 8785 form."""
    if _is_plain(value):
        with suppress(UnicodeEncodeError):  # a lone surrogate: the library says what is wrong with it
            return _plain_encoder.encode(value).encode()
    return rfc8785.dumps(value)


def _is_plain(value: Any) -> bool:
    """Tell whether Python's own encoder writes a value in the same form, in a quarter of the library's time.

    It writes floats in another form, and sorts members by code points, not by UTF-16 units: ASCII names sort the same.
    """
    kind = type(value)
    if kind is dict:
        for name, item in value.items():
            # Most are texts: without a call for each it takes half the time.
            if type(name) is not str or not name.isascii() or not (type(item) is str or _is_plain(item)):
                return False
        return True
    if kind is list:
        for item in value:  # noqa: SIM110 - `all` would cost half of what this saves
            if not _is_plain(item):
                return False
        return True
    return kind is str or value is None or kind is bool or (kind is int and abs(value) <= _LARGEST_INTEGER)


def fingerprint(value: Any) -> bytes:
    """Compute the SHA-256 (32 bytes) of the canonical form."""
    return hashlib.sha256(canonical_json(value)).digest()


def _integer(text: str) -> int:
    # Compared by length first: Python refuses to read integers of thousands of digits.
    if len(text) > len(str(_LARGEST_INTEGER)) + 1 or abs(int(text)) > _LARGEST_INTEGER:
        raise JsonError(_TOO_LONG)
    return int(text)


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise JsonError("The body holds a number that is too large; send it as a string.")
    # All floats beyond 2^53 are whole.
    if _LARGEST_INTEGER < abs(number) < _EXPONENT_FROM:
        raise JsonError(_TOO_LONG)
    return number


def _constant(text: str) -> NoReturn:
    raise JsonError(f"{text} is not JSON.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise JsonError("The body holds an object with a duplicate member.")
    return members


def _refuse_depth(text: str) -> None:
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(text):
        if token[0] in "[{":
            depth += 1
            if depth > _DEEPEST:
                raise JsonError("The body is nested too deeply.")
        elif token[0] in "]}":
            depth -= 1


def _refuse_unstorable_text(value: Any) -> None:
    if isinstance(value, str):
        if "\x00" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
            raise JsonError("The body holds U+0000 or a lone surrogate.")
    elif isinstance(value, list | dict):
        for item in value:  # the members' names, of an object
            _refuse_unstorable_text(item)
        for item in value.values() if isinstance(value, dict) else ():
            _refuse_unstorable_text(item)


_plain_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)
_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant)
