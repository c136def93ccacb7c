"""The checklists of CONTRIBUTING name files that there are, and what is there has been through them."""

import re

import pytest
from allowance_client.client import Allowance, AsyncAllowance
from allowance_client.operations import Operations

from allowance.front.measuring import template_of
from allowance.urls import urlpatterns
from foundation.api.views import ApiViewSet
from tests.documents.pages import files, folders, text_of
from tests.support.openapi_document import OPERATIONS

# Names of what is to be made, and words that are no path.
_NEW = re.compile(r"[<*]")
CHECKLISTS = dict(
    re.findall(r"^## (To add .*?)\n(.*?)(?=^## |\Z)", text_of("CONTRIBUTING.md"), re.MULTILINE | re.DOTALL)
)


def test_there_are_checklists_for_common_changes():
    common = {"a policy rule", "an endpoint", "a kind of change that staff make", "a management command"}

    assert {f"To add {what}" for what in common} <= CHECKLISTS.keys()


@pytest.mark.parametrize("checklist", CHECKLISTS)
def test_the_files_that_a_checklist_names_are_there(checklist):
    rows = [row.split("|")[1] for row in CHECKLISTS[checklist].splitlines() if row.startswith("| ")]
    named = {path for row in rows for path in re.findall(r"`([\w./<>*-]+/[\w./<>*-]*)`", row) if not _NEW.search(path)}

    assert named
    assert {path for path in named if path.rstrip("/") not in files() | folders()} == set()


def test_every_endpoint_has_been_through_the_checklist():
    client = "".join(text_of(path) for path in files() if path.startswith("clients/python/allowance_client/"))
    schema = text_of("clients/typescript/schema.d.ts")
    views = {template_of(str(one.pattern)): getattr(one.callback, "cls", None) for one in urlpatterns if one.callback}
    endpoints = {path: view for path, view in views.items() if view is not None and issubclass(view, ApiViewSet)}

    assert endpoints.keys() == {path for path, _ in OPERATIONS}
    for path, view in endpoints.items():
        app, *rooms = view.__module__.split(".")
        home = "payments/api" if rooms[0] == "api" else app
        assert f"describe({view.__name__}," in re.sub(r"\b\w+\.(?=\w+ViewSet)", "", text_of(f"{home}/openapi.py"))
        assert re.search(rf'["/]{path.split("/")[2]}["/]', client)
        assert f'"{path}"' in schema


def test_every_operation_of_the_client_is_in_both_of_its_faces():
    operations = {name for name in vars(Operations) if not name.startswith("_")}

    assert operations
    assert operations <= {name for name in dir(Allowance) if not name.startswith("_")}
    assert operations <= {name for name in dir(AsyncAllowance) if not name.startswith("_")}
