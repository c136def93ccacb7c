"""Texts that others wrote, made fit to be read by a model: they stay data, and they stay short.

A payee's name, a reason or a message may hold instructions, invisible letters or controls of writing direction. None of
them becomes part of a sentence of ours: they stand under `untrusted`, cleaned, and cut off.
"""

import re
import unicodedata
from typing import Any

UNTRUSTED = "untrusted"
LONGEST_NAME, LONGEST_TEXT = 120, 300
# Invisible letters, controls of direction, private letters, halves of letters, and what is not assigned.
_UNSEEN = {"Cf", "Co", "Cs", "Cn"}
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}", re.ASCII)


def clean(text: Any, longest: int = LONGEST_TEXT) -> str:
    """Make one line of what somebody wrote: no control, no invisible letter, at most `longest` characters."""
    letters = (_letter(one) for one in str(text)[: 4 * longest])
    line = " ".join("".join(letters).split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def clean_id(value: Any) -> str | None:
    """Return an id of ours, or None where it is not one: an id can hold no sentence."""
    return value if isinstance(value, str) and _ID.fullmatch(value) else None


def _letter(letter: str) -> str:
    category = unicodedata.category(letter)
    if category in ("Cc", "Zl", "Zp"):
        return " "
    return "" if category in _UNSEEN else letter
