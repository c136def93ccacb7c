"""Serializer fields that are strict about money and text: nothing is coerced, trimmed or rounded."""

import unicodedata
from typing import Any

from rest_framework import serializers


class StrictCharField(serializers.CharField):
    """A JSON string, kept verbatim, without control characters. Numbers and booleans are refused."""

    def __init__(self, **options: Any) -> None:
        super().__init__(trim_whitespace=False, **options)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        if not data.isprintable() and has_control_characters(data):
            raise serializers.ValidationError("Must not contain control characters.")
        return data


class TextField(StrictCharField):
    """A JSON string for people: line breaks and tabs are welcome, blank is not."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        if not data.strip():
            self.fail("blank")
        return data


def has_control_characters(text: str) -> bool:
    """Tell whether a text holds a character of Unicode category Cc, U+0000 among them."""
    return any(unicodedata.category(letter) == "Cc" for letter in text)
