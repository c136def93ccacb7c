"""The pages name no release, tag or branch that is not there: nobody who copies a command is sent nowhere."""

import re
import subprocess

import pytest

from foundation.kernel.version import VERSION
from tests.documents.pages import ROOT, pages, text_of

# A version of ours, or the tag of one; not a part of an address, a longer number or a package's name.
_VERSION = re.compile(r"(?<![\d.=@/-])(v?)(0\.\d+\.\d+)(?![\d.])")
_HEADING = re.compile(r"(?m)^## \[(\d+\.\d+\.\d+)\]")
# What git is told to take. A variable stands for what the reader has chosen.
_TAKEN = re.compile(r"git (?:clone[^\n]*? --branch|switch|checkout)(?: --detach)?[ =]([^\s`-][^\s`]*)")
_CHOSEN = ("$", '"$', "<")


def released():
    """List the versions that the changelog has, and the one that is being made."""
    return {*_HEADING.findall(text_of("CHANGELOG.md")), VERSION}


def names_of_git():
    listed = subprocess.run(["git", "-C", str(ROOT), "tag"], capture_output=True, text=True, check=True)
    return {"main", *listed.stdout.split()}


def find_unknown(text, versions, names):
    """Find what a text names and is not there: versions, tags, and what git is told to take."""
    unknown = [
        tag + version
        for tag, version in _VERSION.findall(text)
        if version not in versions or (tag and tag + version not in names)
    ]
    return unknown + [one for one in _TAKEN.findall(text) if not one.startswith(_CHOSEN) and one not in names]


@pytest.mark.parametrize("page", pages())
def test_a_page_names_no_version_that_is_not_there(page):
    assert find_unknown(text_of(page), released(), names_of_git()) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("git clone --branch v0.2.0 URL", ["v0.2.0", "v0.2.0"]),
        ("git switch --detach v9", ["v9"]),
        ("image: allowance:0.9.0", ["0.9.0"]),
        ('git clone --branch "$RELEASE" URL; since 0.2.0; x402==0.9.1; 10.0.2.2; git switch main', []),
    ],
)
def test_what_is_not_there_is_found(text, found):
    assert find_unknown(text, {"0.2.0"}, {"main"}) == found
