"""Everything that a server installs may be used by a project under Apache-2.0."""

import json
import re

from tests.documents.licences import PERMISSIVE, STATED, WEAK_COPYLEFT, read_packages
from tests.documents.pages import text_of

PAGE = "docs/decisions/licence.md"


def test_every_package_of_a_server_has_a_licence_that_is_known():
    unknown = [one for one in read_packages() if not one.terms <= PERMISSIVE | WEAK_COPYLEFT]

    assert unknown == []


def test_what_the_client_for_typescript_brings_has_a_licence_that_is_known():
    lock = json.loads(text_of("clients/typescript/package-lock.json"))["packages"]
    brought = {path: package["license"] for path, package in lock.items() if path and not package.get("dev")}

    assert "node_modules/openapi-fetch" in brought
    assert [path for path, licence in brought.items() if licence not in PERMISSIVE] == []


def test_the_page_has_a_word_on_each_package_that_needs_one():
    wanted = {one.name for one in read_packages() if one.terms & WEAK_COPYLEFT} | STATED.keys()

    assert set(re.findall(r"^\| `([\w.-]+)`", text_of(PAGE), re.MULTILINE)) == wanted


def test_nothing_is_stated_of_a_package_that_is_not_installed_any_more():
    assert STATED.keys() <= {one.name for one in read_packages()}


def test_the_licence_is_apache_2_0():
    licence = text_of("LICENSE")

    assert "Apache License\n                           Version 2.0, January 2004" in licence
    assert "END OF TERMS AND CONDITIONS" in licence
    assert 'license = "Apache-2.0"' in text_of("pyproject.toml")
