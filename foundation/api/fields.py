"""Serializer fields that are strict about money and text: nothing is coerced, trimmed or rounded."""

import unicodedata
from typing import Any

from rest_framework import serializers

from foundation.kernel.blanks import is_blank

# Unicode's controls of writing direction: with them one name can be made to look like another.
DIRECTION_CONTROLS = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


_BLANK = "Must not be blank: nothing of it can be seen."


class StrictCharField(serializers.CharField):
    """A JSON string, kept verbatim, without control characters. Numbers and booleans are refused."""

    default_error_messages = {"invalid": "Must be a string."}

    def __init__(self, **options: Any) -> None:
        super().__init__(trim_whitespace=False, **options)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        if not data.isprintable() and has_control_characters(data):
            raise serializers.ValidationError("Must not contain control characters.")
        return data


class FilterField(serializers.CharField):
    """A value of a query, which may be left out, but not be empty: an empty variable is no wish to see everything."""

    default_error_messages = {"blank": "Is empty: give it a value, or leave it out."}

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, trim_whitespace=False, **options)


class TextField(StrictCharField):
    """A JSON string for people: line breaks and tabs are welcome, nothing to be seen is not."""

    default_error_messages = {"blank": _BLANK}

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        if is_blank(data):
            self.fail("blank")
        return data


class NameField(StrictCharField):
    """A JSON string that people tell things apart by: not blank, and nothing in it that disguises it."""

    default_error_messages = {"blank": _BLANK}

    def to_internal_value(self, data: Any) -> str:
        name = super().to_internal_value(data)
        if is_blank(name):
            self.fail("blank")
        if not DIRECTION_CONTROLS.isdisjoint(name):
            raise serializers.ValidationError("Must not contain characters that control the writing direction.")
        return name


def has_control_characters(text: str) -> bool:
    """Tell whether a text holds a character of Unicode category Cc, U+0000 among them."""
    return any(unicodedata.category(letter) == "Cc" for letter in text)
