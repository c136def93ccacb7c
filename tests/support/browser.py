"""A real Chromium, driven by Playwright: the machine's own, nothing is downloaded."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.test import Client
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PATIENCE_MS = 30_000
# CI installs a browser and may not go without; a newcomer's `make test` may.
needs_browser = pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason="Chromium is not installed")
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Run a browser of its own, with an empty profile, until the block ends."""
    assert CHROMIUM, "Chromium is not installed."
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        # Playwright runs a loop in this thread, and Django then refuses the database, of which only this thread asks.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()
            connections.close_all()  # beside a loop Django has connections apart


@contextmanager
def open_page(browser: Browser, user: User | None = None, *, url: str = "") -> Iterator[Page]:
    """Open a page, signed in as `user` at the server of `url`.

    In the end nothing may have gone wrong in it: no script failed, the content policy refused nothing, and nothing was
    asked of another server.
    """
    with browser.new_context(base_url=url or None, viewport={"width": 1440, "height": 900}) as context:
        context.set_default_timeout(PATIENCE_MS)
        if user:  # with a session, as after signing in
            context.add_cookies([{"name": "sessionid", "value": _session_of(user), "url": url}])
        page = context.new_page()
        troubles = Troubles(page)
        yield page
        assert not troubles.found, "\n".join(troubles.found)


class Troubles:
    """What goes wrong in a page."""

    def __init__(self, page: Page) -> None:
        self.found: list[str] = []
        page.on("pageerror", lambda error: self.found.append(f"{page.url}: {error}"))
        page.on("console", self._hear)
        page.on("request", self._look_where)

    def _hear(self, message: ConsoleMessage) -> None:
        # A page of an error is one that could not be loaded, to Chromium.
        is_page_of_error = message.page is not None and message.location["url"] == message.page.url
        if message.type == "error" and not is_page_of_error:
            self.found.append(f"{message.location['url']}: {message.text}")

    def _look_where(self, request: Request) -> None:
        if urlsplit(request.url).hostname not in {"127.0.0.1", None}:
            self.found.append(f"It asks {request.url}")


def _session_of(user: User) -> str:
    client = Client()
    client.force_login(user)
    return client.cookies["sessionid"].value
