"""Work in the console as people do: sign in, and send the forms of its pages with what they hold."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urljoin

import requests

_TIMEOUT_S = 30
_NO_TEXT = ("script", "style", "template")


@dataclass
class Form:
    """A form of a page: where it goes, and what its fields hold."""

    action: str
    fields: list[tuple[str, str]] = field(default_factory=list)

    def has(self, name: str) -> bool:
        return any(name == known for known, _ in self.fields)


@dataclass
class Page:
    """A page as it was answered: its address, its forms, and its words."""

    url: str
    forms: list[Form]
    text: str
    messages: list[str]

    def form_with(self, name: str) -> Form:
        """Find the form that has a field.

        Raises:
            LookupError: there is none; the page's words say what there is instead.
        """
        for form in self.forms:
            if form.has(name):
                return form
        raise LookupError(f"{self.url} has no form with {name}: {self.text[:300]}")


class Console:
    """A person's browser, without the pictures."""

    def __init__(self, url: str, username: str, password: str) -> None:
        self._url = url
        self._session = requests.Session()
        self._session.trust_env = False  # a proxy in the environment is not meant for 127.0.0.1
        self._session.headers["Referer"] = f"{url}/console/"
        self.username = username
        page = self.open("/console/")
        self.send(page.form_with("password"), page, username=username, password=password)

    def open(self, path: str) -> Page:
        """Open a page of the console."""
        return _read(self._session.get(urljoin(self._url, path), timeout=_TIMEOUT_S))

    def read(self, path: str) -> str:
        """Read what is no page, such as an export."""
        return self._session.get(urljoin(self._url, path), timeout=_TIMEOUT_S).text

    def send(self, form: Form, page: Page, **fields: str) -> Page:
        """Send a form with what it holds and what was filled in."""
        held = [(name, value) for name, value in form.fields if name not in fields]
        answer = self._session.post(urljoin(page.url, form.action), data=[*held, *fields.items()], timeout=_TIMEOUT_S)
        return _read(answer)

    def act(self, path: str, action: str, row: str, **fields: str) -> tuple[str, str]:
        """Choose an action for a row of a list and fill in what its page asks for.

        Returns what that page shows, and what the console says in the end.
        """
        page = self.open(path)
        token = next(value for form in page.forms for name, value in form.fields if name == "csrfmiddlewaretoken")
        chosen = Form(path, [("csrfmiddlewaretoken", token), ("action", action), ("_selected_action", row)])
        asked = self.send(chosen, page)
        form = asked.form_with("reason")
        return asked.text, " ".join(self.send(form, asked, **fields).messages)


class _Reader(HTMLParser):
    """Collect forms, words and the console's messages."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.words: list[str] = []
        self.messages: list[str] = []
        self._silent = 0
        self._depth = 0  # inside the list of messages

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(Form(given.get("action", "")))
        elif tag == "input" and self.forms and given.get("name"):
            is_kept = given.get("type") not in ("checkbox", "radio", "submit") or "checked" in given
            if is_kept:
                self.forms[-1].fields.append((given["name"], given.get("value", "")))
        elif tag in ("textarea", "select") and self.forms and given.get("name"):
            self.forms[-1].fields.append((given["name"], ""))
        self._silent += tag in _NO_TEXT
        if tag == "ul" and ("messagelist" in given.get("class", "") or self._depth):
            self._depth += 1
        elif tag == "li" and self._depth:
            self.messages.append("")

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in _NO_TEXT
        if tag == "ul" and self._depth:
            self._depth -= 1

    def handle_data(self, data: str) -> None:
        if self._silent or not data.strip():
            return
        self.words.append(" ".join(data.split()))
        if self._depth and self.messages:
            self.messages[-1] = f"{self.messages[-1]} {' '.join(data.split())}".strip()


def _read(answer: requests.Response) -> Page:
    reader = _Reader()
    reader.feed(answer.text)
    return Page(answer.url, reader.forms, " ".join(reader.words), reader.messages)
