"""Every page of the console, found by walking its links, and what looks at each."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from django.urls import resolve
from playwright.sync_api import Error, Page, ViewportSize

from tests.support.javascript import install_or_skip

DESKTOP, PHONE = ViewportSize(width=1440, height=900), ViewportSize(width=390, height=844)
# They end the session, or are no page.
_NOT_WALKED = {"admin:logout", "admin:jsi18n", "account_logout"}


@dataclass
class Examiner:
    """Looks at the page that is open, in light and dark, on a desktop and on a phone; remembers what it finds."""

    page: Page
    found: dict[str, list[str]] = field(default_factory=dict)  # what is wrong, and where

    def examine(self, name: str) -> None:
        """Look for what axe-core calls serious, on a desktop, and for what does not fit there or on a phone."""
        found = set()
        self._show(PHONE, "light")
        found |= self._find_too_wide(PHONE)
        self._show(DESKTOP, "light")
        found |= self._find_too_wide(DESKTOP)
        found |= {f"{problem} (light)" for problem in self._ask_axe()}
        # The colours are all that a theme changes.
        self._show(DESKTOP, "dark")
        found |= {f"{problem} (dark)" for problem in self._ask_axe("color-contrast")}
        for problem in found:
            self.found.setdefault(problem, []).append(name)

    def report(self) -> str:
        """Say what was found, what is on most pages first."""
        ranked = sorted(self.found.items(), key=lambda item: -len(item[1]))
        return "\n".join(f"{problem}\n    on {len(names)} pages: {', '.join(names[:6])}" for problem, names in ranked)

    def _show(self, size: ViewportSize, theme: Literal["light", "dark"]) -> None:
        self.page.set_viewport_size(size)
        self.page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        self.page.evaluate(_UNTIL_DRAWN)

    def _find_too_wide(self, size: ViewportSize) -> set[str]:
        too_wide = self.page.evaluate(_TOO_WIDE)
        return {f"too wide for {size['width']}: {too_wide}"} if too_wide else set()

    def _ask_axe(self, *rules: str) -> list[str]:
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(_read_axe())
        options: dict[str, Any] = {"preload": False, "resultTypes": ["violations"]}
        if rules:
            options["runOnly"] = {"type": "rule", "values": list(rules)}
        violations = self.page.evaluate("options => axe.run(options).then(({violations}) => violations)", options)
        return [
            f"{one['id']}: {node['html'][:160]}"
            for one in violations
            if one["impact"] in {"serious", "critical"}
            for node in one["nodes"]
        ]


# What a page does about its new size is done before it is drawn.
_UNTIL_DRAWN = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
# The page itself never scrolls sideways; on a desktop no table does, either.
_TOO_WIDE = """() => {
    const wide = (element) => element.scrollWidth > element.clientWidth + 1;
    const tables = innerWidth > 1400 ? [...document.querySelectorAll(".scroll")].filter(wide) : [];
    return [...(wide(document.documentElement) ? ["the page"] : []),
        ...tables.map((box) => box.querySelector("table")?.id || "a table")].join(", ");
}"""


def walk(page: Page) -> Iterator[str]:
    """Open a page of each kind that links lead to, from the front page on; yields what it is called in the URLs."""
    waiting, seen = ["/console/"], set()
    while waiting:
        path = waiting.pop(0)
        name = resolve(urlsplit(path).path).view_name
        if name in seen or name in _NOT_WALKED:
            continue
        seen.add(name)
        try:
            response = page.goto(path)
        except Error as error:
            if "Download is starting" in error.message:
                continue
            raise
        assert response, path
        assert response.ok, f"{response.status}: {path}"
        yield name
        waiting += page.evaluate(
            "[...document.querySelectorAll('a[href]')].map(({href}) => new URL(href))"
            ".filter(url => url.origin === location.origin && url.pathname.startsWith('/console/'))"
            ".map(url => url.pathname + url.search)"
        )


@cache
def _read_axe() -> str:
    folder = install_or_skip(Path(__file__).parent / "axe")
    return (folder / "node_modules/axe-core/axe.min.js").read_text()
