"""The pages that `/v1/docs/<page>` shows: the Markdown files below docs/integrate, read once per process.

What may be asked for is what was found there, by name: no part of a request is ever used as a path.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from django.conf import settings
from markdown_it import MarkdownIt
from markdown_it.token import Token

from foundation.api.client_packages import ADDRESS as PACKAGES
from foundation.api.client_packages import IN_A_CHECKOUT, TARBALL, WHEEL

ADDRESS = "/v1/docs"
_NAME = re.compile(r"[a-z0-9_-]+(?:/[a-z0-9_-]+)?")
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^()\s]*)\)")
_FENCE = re.compile(r"^( *```.*?^ *```$)", re.DOTALL | re.MULTILINE)
# Links of pages to the folders of the clients.
_PACKAGES = {"../../clients/python": f"{PACKAGES}/{WHEEL}", "../../clients/typescript": f"{PACKAGES}/{TARBALL}"}
# The order in which a newcomer reads; what is not named here follows by name.
_READ_FIRST = ("agents", "clients", "mcp", "retries", "errors", "x402", "payees", "receipts")


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its name, as in its address, and its Markdown, whose links are addresses of this installation."""

    name: str
    markdown: str

    @property
    def address(self) -> str:
        """Where the page is, relative to the installation."""
        return f"{ADDRESS}/{self.name}"

    @property
    def title(self) -> str:
        """The first heading, without its code marks."""
        return self.markdown.partition("\n")[0].removeprefix("# ").replace("`", "")

    @property
    def summary(self) -> str:
        """The first sentence, as one line of plain text."""
        paragraph = self.markdown.split("\n\n")[1].replace("\n", " ")
        sentence = re.split(r"(?<=[.:]) ", _LINK.sub(r"\1", paragraph))[0].replace("**", "").rstrip(".:")
        return f"{sentence}."


@cache
def read_pages(folder: Path | None = None, address: str = ADDRESS) -> Mapping[str, Page]:
    """Read the pages below a folder (docs/integrate), in the order of reading; links of the file system are left out.

    Links of one to another lead to where they are shown, below `address`.

    Without the folder, there are no pages.
    """
    folder = folder or settings.BASE_DIR / "docs/integrate"
    texts = {
        path.relative_to(folder).with_suffix("").as_posix(): path.read_text("utf-8")
        for path in [*folder.glob("*.md"), *folder.glob("*/*.md")]
        if path.resolve() == folder.resolve() / path.relative_to(folder)
    }
    names = sorted((name for name in texts if _NAME.fullmatch(name)), key=_reading_order)
    return {name: Page(name, _with_addresses(name, texts[name], names, address)) for name in names}


def _reading_order(name: str) -> tuple[bool, int, str]:
    first = _READ_FIRST.index(name) if name in _READ_FIRST else len(_READ_FIRST)
    return "/" in name, first, name


def _with_addresses(name: str, text: str, names: list[str], address: str) -> str:
    """Turn links to other pages into addresses, and links to what is only in the repository into plain words.

    The clients are in the repository and here: what is said of how to install them names the archives of this place.
    """

    def convert(found: re.Match[str]) -> str:
        words, (path, hash_sign, anchor) = found[1], found[2].partition("#")
        if not path or ":" in path or path.startswith("/"):
            return found[0]
        if path in _PACKAGES:
            return f"[{words}]({_PACKAGES[path]})"
        target = _resolve(name, path)
        return f"[{words}]({address}/{target}{hash_sign}{anchor})" if target in names else words

    for in_a_checkout, here in IN_A_CHECKOUT.items():
        text = text.replace(in_a_checkout, here)
    parts = _FENCE.split(text)  # every second one is a block of code
    return "".join(part if number % 2 else _LINK.sub(convert, part) for number, part in enumerate(parts))


def _resolve(name: str, path: str) -> str:
    """Resolve a link of a page to the name of another one; "": it leads elsewhere."""
    steps = name.split("/")[:-1]
    for step in path.split("/"):
        if step == ".." and not steps:
            return ""
        steps = steps[:-1] if step == ".." else [*steps, step]
    target = "/".join(steps)
    return target.removesuffix(".md") if target.endswith(".md") else ""


def as_html(markdown: str) -> str:
    """Render a page's Markdown, without any HTML of its own: headings have anchors, wide tables scroll."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(markdown)
    anchors: list[str] = []
    for token, content in pairwise(tokens):
        if token.type == "heading_open":
            token.attrSet("id", _anchor(content.content, anchors))
    rendered: str = parser.renderer.render(list(_wrap_tables(tokens)), parser.options, {})
    return rendered


def _anchor(heading: str, taken: list[str]) -> str:
    """Name a heading's anchor as GitHub does, so that one link fits both."""
    plain = re.sub(r"[^\w\- ]", "", _LINK.sub(r"\1", heading).lower()).replace(" ", "-")
    taken.append(plain)
    count = taken.count(plain) - 1
    return f"{plain}-{count}" if count else plain


def _wrap_tables(tokens: list[Token]) -> list[Token]:
    """Put each table into a box that scrolls, also by keyboard."""
    wrapped: list[Token] = []
    for token in tokens:
        box = Token("box_open", "div", 1, attrs={"class": "scroll", "tabindex": 0}, block=True)
        wrapped += [box, token] if token.type == "table_open" else [token]
        if token.type == "table_close":
            wrapped.append(Token("box_close", "div", -1, block=True))
    return wrapped
