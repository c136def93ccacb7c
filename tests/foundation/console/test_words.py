"""One word for one thing, on every page of the console: payees, decisions, refused. The API's words stay the API's."""

import re
from collections import defaultdict
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest
from django.urls import resolve, reverse

from allowance.navigation import PAGES
from tests.support.one_of_everything import make_one_of_everything

# What the console calls otherwise: a payee, a decision, refused. A part of an id or of an address is no word.
OTHERS = re.compile(
    r"(?<![-\w.:/=])(services?|approvals|logs?|log entr(?:y|ies)|entry of the log|blocked)(?![-\w.:/=])", re.IGNORECASE
)
# Where these words mean something else, or are the API's.
ALLOWED = re.compile(
    r"Log out|(?:out of|in) service|Log index|blocked address|"
    r"services: register payees|logs: read|payments, budgets, logs"
)
NOT_WALKED = {"admin:logout", "admin:jsi18n", "account_logout", "account_change_password", "backoffice:runbook"}
_NOT_OURS = ("script", "style", "code", "pre", "bdi")  # what others have written


class Words(HTMLParser):
    """The words of a page: its text, and what its elements are called."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._depth += tag in _NOT_OURS
        self.words += [value for name, value in attrs if name in ("placeholder", "aria-label", "title") and value]

    def handle_endtag(self, tag: str) -> None:
        self._depth -= tag in _NOT_OURS

    def handle_data(self, data: str) -> None:
        if not self._depth and data.strip():
            self.words.append(" ".join(data.split()))


def walk(person) -> Iterator[tuple[str, str]]:
    """Open a page of each kind that links lead to; yields its name and its HTML."""
    waiting, seen = ["/console/"], set(NOT_WALKED)
    while waiting:
        path = waiting.pop(0)
        name = resolve(urlsplit(path).path).view_name
        if name in seen:
            continue
        seen.add(name)
        answer = person.client.get(path, follow=True)
        if answer.streaming or "html" not in answer["Content-Type"]:
            continue
        html = answer.content.decode()
        yield name, html
        waiting += [unescape(path) for path in re.findall(r'href="(/console/[^"#]*)"', html)]


def test_no_page_has_another_word_for_what_has_one(superuser):
    make_one_of_everything()
    found, walked = defaultdict(set), set()

    for name, html in walk(superuser):
        walked.add(name)
        page = Words()
        page.feed(html)
        for words in page.words:
            if other := OTHERS.search(ALLOWED.sub("", words)):
                found[other[0], words].add(name)

    assert not found
    of_agents = {"admin:policy_agent_policy", "admin:policy_agent_shadow"}
    assert {"admin:services_service_change", "admin:ledger_logentry_change"} | of_agents <= walked
    assert len(walked) > 40


@pytest.mark.parametrize("page", [page for pages in PAGES.values() for page in pages], ids=lambda page: page.title)
def test_a_page_is_called_in_its_heading_as_in_the_navigation(superuser, page):
    make_one_of_everything()

    html = superuser.client.get(reverse(page.url_name), follow=True).content.decode()

    heading = re.search(r"<h1>(.*?)</h1>", html, re.DOTALL)
    assert heading
    assert page.title.lower().removesuffix("s") in heading[1].lower()


def test_a_refusal_is_called_so_in_the_filter_in_the_list_and_at_its_agent(auditor):
    entry = make_one_of_everything()

    for address in (reverse("admin:ledger_logentry_changelist"), f"/console/policy/agent/{entry.agent_id}/change/"):
        html = auditor.client.get(address).content.decode()
        assert "✗ refused" in html
        assert not re.search(r">\s*blocked\s*<", html)
    assert '<option value="blocked">Refused</option>' in auditor.get("ledger_logentry_changelist").content.decode()
