"""What code and pages cite is in the repository: the file, and the words that are quoted from it."""

import os
import re
from pathlib import Path

import pytest

from tests.documents.pages import files, text_of

CITING = sorted(path for path in files() if path.endswith((".py", ".sql", ".sol", ".md", ".toml", ".html", ".mjs")))
_FILE = re.compile(r"(?<![\w./*-])((?:[\w.-]+/|\.\./)*[\w.-]*\w\.md)\b")
# A file, a comma, and words in quotation marks; several of these may be joined by commas or "and".
_QUOTING = re.compile(_FILE.pattern + r'((?:(?:,| and|;)? "[^"]+")+)')
_WITHOUT_FILE = re.compile(r'(?<!-)\bspecification(?:,| and) (?:"|field|contract)')


@pytest.mark.parametrize("path", [one for one in CITING if ".md" in text_of(one)])
def test_every_page_that_is_cited_is_in_the_repository(path):
    missing = [name for name in _FILE.findall(text_of(path)) if _find(name, path) is None]

    assert missing == []


@pytest.mark.parametrize("path", [one for one in CITING if _QUOTING.search(text_of(one))])
def test_every_page_says_what_is_quoted_from_it(path):
    wrong = []
    for name, quotes in _quotations(path):
        cited = _find(name, path)
        text = "" if cited is None else " ".join(text_of(cited).split())
        wrong += [f'{name}, "{quote}"' for quote in quotes if quote not in text]

    assert wrong == []


def _quotations(path: str) -> list[tuple[str, list[str]]]:
    # A citation may go on in the next line of a comment.
    flat = re.sub(r"\n\s*(?:#|--|//|\*)? ?", " ", text_of(path))
    return [(name, re.findall(r'"([^"]+)"', quotes)) for name, quotes in _QUOTING.findall(flat)]


def test_nobody_cites_the_specification_without_its_file():
    assert [path for path in CITING if _WITHOUT_FILE.search(text_of(path)) and path != _THIS] == []


_THIS = Path(__file__).relative_to(Path(__file__).parents[2]).as_posix()


def _find(name: str, path: str) -> str | None:
    """Find a cited page: from the root, or from the folder of the page that cites it."""
    beside = os.path.normpath(Path(path).parent / name)
    return next((one for one in (name, beside) if one in files() and (one == name or path.endswith(".md"))), None)
