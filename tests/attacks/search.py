"""Search whatever a product leaves behind for secrets that are known, in each way of writing them."""

import base64
import html
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import quote

_ALIGNMENTS = range(3)
# What base64 makes of the bytes beside a secret.
_EDGE = 4


def spellings(secret: bytes) -> dict[str, bytes]:
    """Write a secret in every way in which it may show itself; half a key is found, too."""
    half = secret[: len(secret) // 2]
    base64s = [base64.b64encode(bytes(before) + secret)[_EDGE:-_EDGE] for before in _ALIGNMENTS]
    return {
        "raw": half,
        "hex": half.hex().encode(),
        "decimal": str(int.from_bytes(secret, "big")).encode(),
        "list": ", ".join(map(str, half)).encode(),
        "repr": repr(half)[2:-1].encode(),
        "percent": quote(half).encode(),
        "percent, every byte": "".join(f"%{byte:02x}" for byte in half).encode(),
        **{f"base64, {before} before": text for before, text in zip(_ALIGNMENTS, base64s, strict=True)},
        **{f"url-safe, {before} before": _url_safe(text) for before, text in zip(_ALIGNMENTS, base64s, strict=True)},
    }


@dataclass(slots=True)
class Remains:
    """What was left behind, by kind of place: each piece has a name and its bytes."""

    pieces: list[tuple[str, str, bytes]] = field(default_factory=list)

    def add(self, kind: str, name: str, contents: bytes | str) -> None:
        data = contents.encode() if isinstance(contents, str) else contents
        self.pieces.append((kind, name, data))

    def find(self, secret: bytes) -> Iterator[tuple[str, str, str]]:
        """Find a secret: the kind of place, its name, and how it is written there."""
        written = spellings(secret)
        for kind, name, data in self.pieces:
            forms = {data, data.lower(), html.unescape(data.decode(errors="replace")).encode()}
            for spelling, text in written.items():
                if any(text in form or text.lower() in form for form in forms):
                    yield kind, name, spelling

    def kinds(self) -> set[str]:
        return {kind for kind, _, _ in self.pieces}


def _url_safe(text: bytes) -> bytes:
    return text.replace(b"+", b"-").replace(b"/", b"_")
