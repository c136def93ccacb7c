"""Texts of which nothing can be seen, and others."""

import pytest

from foundation.kernel.blanks import is_blank

NOTHING = [
    "", " \t\r\n", "\u200b\u200c\u200d", "\u202a\u202e", "\u00ad", "\ufeff", "\u2800", "\u3164", "\U000e0001",
    "\x00\x1b",
]  # fmt: skip
SOMETHING = [
    "a", ".", "\u200f\u05d0", "a\u200b", "\u200b.", "\U0001f469\u200d\U0001f4bb", "\u2603\ufe0f", "\u0301", "\ue000",
    "\ufffd",
]  # fmt: skip


@pytest.mark.parametrize("text", NOTHING)
def test_what_is_drawn_as_nothing_is_blank(text):
    assert is_blank(text)


@pytest.mark.parametrize("text", SOMETHING)
def test_a_text_with_anything_to_be_seen_is_not(text):
    assert not is_blank(text)
