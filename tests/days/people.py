"""The people of the console, each with a browser and an authenticator of their own, who work as people do."""

import base64
import hmac
import re
import struct
import time
from typing import Any

from playwright.sync_api import Browser, Locator, Page

from tests.days.installation import PASSWORD
from tests.support.browser import PATIENCE_MS, Troubles

_STEP_S = 30


class Authenticator:
    """A telephone that shows codes (RFC 6238), each of which the console takes once."""

    def __init__(self, secret: str) -> None:
        self._secret = base64.b32decode(secret)
        self._last = 0

    def code(self) -> str:
        """Give a code that was not used; the console takes that of the next half minute, too."""
        step = max(int(time.time()) // _STEP_S, self._last + 1)
        time.sleep(max(0.0, (step - 1) * _STEP_S - time.time()))
        self._last = step
        digest = hmac.digest(self._secret, struct.pack(">Q", step), "sha1")
        (number,) = struct.unpack_from(">I", digest, digest[-1] & 15)
        return f"{(number & 0x7FFFFFFF) % 1_000_000:06}"


class Person:
    """Somebody at the console, in a browser of their own."""

    def __init__(self, browser: Browser, url: str, name: str) -> None:
        self.name = name
        self._context = browser.new_context(base_url=url, viewport={"width": 1440, "height": 900})
        self._context.set_default_timeout(PATIENCE_MS)
        self.page: Page = self._context.new_page()
        self.troubles = Troubles(self.page)
        self.authenticator: Authenticator | None = None

    @property
    def text(self) -> str:
        """The words of the page that is open, but for the navigation."""
        return re.sub(r"\s+", " ", self.page.locator("main, body").last.inner_text())

    @property
    def content(self) -> Locator:
        return self.page.locator("main")

    def open(self, path: str) -> None:
        self.page.goto(path)
        self._prove()

    def click(self, words: str, *, within: Locator | None = None, exact: bool = True) -> None:
        """Press a button or follow a link by its words, and prove who it is if that is asked first."""
        scope = within or self.content
        target = scope.get_by_role("button", name=words, exact=exact)
        (target.or_(scope.get_by_role("link", name=words, exact=exact))).first.click()
        self.page.wait_for_load_state()
        self._prove()

    def sees(self, words: str) -> bool:
        """Tell whether there is a button or a link of these words."""
        named = re.compile(rf"^\s*{re.escape(words)}")
        return bool(
            self.content.get_by_role("button", name=named).or_(self.content.get_by_role("link", name=named)).count()
        )

    def fill(self, label: str, text: str) -> None:
        named = re.compile(rf"^\s*{re.escape(label)}:?\s*$")
        self.content.locator("input, textarea").and_(self.content.get_by_label(named)).fill(text)

    def status_of(self, path: str) -> int:
        """Open a page that may not be there for this person; returns the status of the answer."""
        answer = self.page.goto(path)
        assert answer
        return answer.status

    def post(self, path: str, **form: str) -> int:
        """Send a form made by hand, with the token that this browser has; returns the status of the answer."""
        token = next(one["value"] for one in self._context.cookies() if one["name"] == "csrftoken")
        sent: dict[str, Any] = {"csrfmiddlewaretoken": token, **form}
        headers = {"Referer": self.page.url}
        return self.page.request.post(path, form=sent, headers=headers, max_redirects=0).status

    def enter_password(self, password: str = PASSWORD) -> None:
        self.open("/console/")
        self.fill("User name", self.name)
        self.fill("Password", password)
        self.click("Sign in")

    def enter_code(self, code: str) -> None:
        self.fill("Code", code)
        self.content.locator("button.primary").click()
        self.page.wait_for_load_state()

    def sign_in_first(self, password: str = PASSWORD) -> None:
        """Sign in, and set up the authenticator: before that no page opens."""
        self.enter_password(password)
        self.open("/console/services/service/")
        key = self.content.locator("code.secret").inner_text()
        self.authenticator = Authenticator(key)
        self.enter_code(self.authenticator.code())
        assert self.content.locator("ul.codes li").count(), "The recovery codes are shown."
        self.click("I have kept them")

    def close(self) -> None:
        self._context.close()

    def _prove(self) -> None:
        if (
            self.page.url.endswith("/login/")
            or not self.page.get_by_role("heading", name="Confirm that it is you").count()
        ):
            return
        assert self.authenticator
        self.fill("Code", self.authenticator.code())
        self.click("Confirm")


class Office:
    """The people of an installation; each signs in when they are asked for first."""

    def __init__(self, browser: Browser, url: str) -> None:
        self._browser, self._url = browser, url
        self._people: dict[str, Person] = {}
        self._all: list[Person] = []

    def __getitem__(self, name: str) -> Person:
        if name not in self._people:
            self._people[name] = self.open_browser(name)
            self._people[name].sign_in_first()
        return self._people[name]

    def open_browser(self, name: str) -> Person:
        """Give somebody a browser in which they are not signed in."""
        self._all.append(Person(self._browser, self._url, name))
        return self._all[-1]

    def show(self) -> None:
        """Print where everybody is: pytest shows that of a test that failed."""
        for person in self._all:
            print(f"--- {person.name} is at {person.page.url}: {person.text}")  # noqa: T201

    def troubles(self) -> list[str]:
        """Take what went wrong in anybody's pages until now."""
        found = [trouble for person in self._all for trouble in person.troubles.found]
        for person in self._all:
            person.troubles.found.clear()
        return found
