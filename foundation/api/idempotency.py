"""Idempotency keys as clients write them: in the header of a request for a payment, and in the query of a list."""

from rest_framework import serializers
from rest_framework.request import Request

from foundation.api.environ import REPEATED
from foundation.api.fields import FilterField
from foundation.kernel.errors import IdempotencyKeyRequired, InvalidRequest

MAX_IDEMPOTENCY_KEY_LENGTH = 255
_FORM = "Must be 1 to 255 printable ASCII characters."


class IdempotencyKeyField(FilterField):
    """The key by which a decision is looked for, written as in the header."""

    def to_internal_value(self, data: str) -> str:
        try:
            return read_idempotency_key(data)
        except (IdempotencyKeyRequired, InvalidRequest) as error:
            raise serializers.ValidationError(_FORM) from error


def idempotency_key_of(request: Request) -> str:
    """Read the key of a request. Raises as `read_idempotency_key` does."""
    if "HTTP_IDEMPOTENCY_KEY" in request.META.get(REPEATED, ()):
        raise InvalidRequest.of("Idempotency-Key", "Was sent more than once, with different values.")
    return read_idempotency_key(request.META.get("HTTP_IDEMPOTENCY_KEY", ""))


def read_idempotency_key(text: str) -> str:
    """Read a key: 1..255 printable ASCII characters, surrounding double quotes stripped.

    Raises:
        IdempotencyKeyRequired: missing or empty.
        InvalidRequest: too long, or not printable ASCII.
    """
    key = text.strip(" \t")
    if len(key) > 1 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if not key:
        raise IdempotencyKeyRequired
    if len(key) > MAX_IDEMPOTENCY_KEY_LENGTH or not (key.isascii() and key.isprintable()):
        raise InvalidRequest.of("Idempotency-Key", _FORM)
    return key
