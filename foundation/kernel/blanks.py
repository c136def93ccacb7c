"""Texts of which nothing can be seen. Pure."""

from unicodedata import category

# Beyond white space and the categories Cc and Cf: the rest of Unicode's Default_Ignorable_Code_Point, which Python does
# not tell, and three signs that are drawn as nothing (blanks of Braille, of music, and of Khitan).
_UNSEEN = frozenset(
    chr(code)
    for codes in (
        (0x34F, 0x2800, 0x3164, 0xFFA0, 0x16FE4, 0x1D159),
        range(0x115F, 0x1161), range(0x17B4, 0x17B6), range(0x180B, 0x1810), range(0x2060, 0x2070),
        range(0xFE00, 0xFE10), range(0xFFF0, 0xFFF9), range(0xE0000, 0xE1000),
    )
    for code in codes
)  # fmt: skip


def is_blank(text: str) -> bool:
    """Tell whether nothing of a text can be seen: white space, controls, formats, and what is drawn as nothing."""
    return all(letter.isspace() or letter in _UNSEEN or category(letter) in ("Cc", "Cf") for letter in text)
