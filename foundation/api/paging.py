"""Lists that are read page by page: how many elements a page has."""

import re
from typing import Any

from rest_framework import serializers

DEFAULT_PAGE_SIZE = 25
MAX_PAGE_SIZE = 100
_INTEGER = re.compile(r"-?[0-9]+", re.ASCII)
_ENOUGH_DIGITS = 20  # to know that a number is over the maximum


class PageSizeField(serializers.Field):
    """An integer of at least 1; more than the maximum means the maximum."""

    def to_internal_value(self, data: Any) -> int:
        if not _INTEGER.fullmatch(data):
            raise serializers.ValidationError("Must be an integer.")
        size = int(data.lstrip("0")[:_ENOUGH_DIGITS] or 0)
        if size < 1:
            raise serializers.ValidationError("Must be at least 1.")
        return min(size, MAX_PAGE_SIZE)

    def to_representation(self, value: int) -> int:
        return value
