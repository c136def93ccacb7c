"""Every link of every page leads somewhere, and every file that is named is there."""

import os
import re
from pathlib import Path

import pytest

from tests.documents.pages import ROOT, anchors_of, files, folders, links_of, pages, prose_of, text_of

# Names that stand for something: of a file that the reader has, or will have.
_EXAMPLES = {"entry.json", "allowance-keys.json"}
_NAMED = re.compile(r"`([\w.@-]+(?:/[\w.@-]+)*\.(?:py|sql|sol|md|toml|txt|html|mjs|json|png|yaml|yml))`")
_FOLDER = re.compile(
    r"`((?:allowance|backoffice|chains|docs|foundation|ledger|operators|payments|policy|services|staff|templates|tests|workshop)/[\w./-]*)`"
)


@pytest.mark.parametrize("page", pages())
def test_every_relative_link_leads_to_a_file_and_to_a_heading_of_it(page):
    broken = []
    for link in links_of(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = os.path.normpath(Path(page).parent / path) if path else page
        is_there = target in files() or target in folders()
        if not is_there or (anchor and anchor not in anchors_of(target)):
            broken.append(link)

    assert broken == []


@pytest.mark.parametrize("page", pages())
def test_every_file_that_a_page_names_is_in_the_repository(page):
    names = {path.rpartition("/")[2] for path in files()}
    missing = [
        name
        for name in _NAMED.findall(prose_of(page))
        if name not in _EXAMPLES and not _is_there(name, page) and not ("/" not in name and name in names)
    ]
    missing += [folder for folder in _FOLDER.findall(prose_of(page)) if not _is_there(folder.rstrip("/"), page)]

    assert missing == []


def _is_there(path: str, page: str) -> bool:
    return any(one in files() or one in folders() for one in (path, os.path.normpath(Path(page).parent / path)))


def test_the_first_page_is_one_page():
    assert len(text_of("README.md").splitlines()) <= 250


def test_every_page_can_be_reached_from_the_first():
    reached, waiting = set(), ["README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        targets = {os.path.normpath(Path(page).parent / link.partition("#")[0]) for link in links_of(page)}
        waiting += [target for target in targets - reached if target in pages()]

    assert [page for page in pages() if page not in reached] == []


def test_pictures_are_small():
    pictures = [path for path in files() if path.startswith("docs/") and path.endswith((".png", ".webp"))]

    assert pictures
    assert [path for path in pictures if (ROOT / path).stat().st_size >= 200_000] == []
