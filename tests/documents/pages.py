"""The pages of the repository, read as Markdown: links, anchors and code blocks."""

import re
import subprocess
import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Within a list, a block is indented.
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]*(?:\([^()\s]*\))?)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block: where it stands, its language, its text."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@cache
def files() -> frozenset[str]:
    """List what git has, or will have: paths from the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return frozenset(path for path in listed if (ROOT / path).is_file())


@cache
def folders() -> frozenset[str]:
    return frozenset(str(parent) for path in files() for parent in Path(path).parents)


def pages() -> list[str]:
    return sorted(path for path in files() if path.endswith(".md"))


@cache
def text_of(path: str) -> str:
    return (ROOT / path).read_text()


@cache
def prose_of(page: str) -> str:
    """Read a page without its code blocks."""
    return FENCE.sub("", text_of(page))


def blocks_of(page: str) -> list[Block]:
    text = text_of(page)
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, found[2], textwrap.dedent(found[3]))
        for found in FENCE.finditer(text)
    ]


def links_of(page: str) -> list[str]:
    return _LINK.findall(prose_of(page))


@cache
def headings_of(page: str) -> tuple[str, ...]:
    return tuple(re.findall(r"^#{1,6} (.+?)\s*$", prose_of(page), re.MULTILINE))


@cache
def anchors_of(page: str) -> frozenset[str]:
    """Name the anchors that GitHub gives to the headings of a page."""
    anchors: list[str] = []
    for heading in headings_of(page):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        plain = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        anchors.append(f"{plain}-{anchors.count(plain)}" if plain in anchors else plain)
    return frozenset(anchors)
