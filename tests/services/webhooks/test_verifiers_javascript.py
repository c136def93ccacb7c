"""The verifiers of docs/integrate/verify-webhooks.md in JavaScript, on what is really sent."""

import base64
import json
from pathlib import Path

import pytest

from chains.contracts.node_packages import run_script
from services.webhooks.signing_secrets import as_text
from tests.support.javascript import install_or_skip
from tests.support.signed_webhooks import (
    BODY,
    FALSE,
    FOREIGN_SECRET,
    GENUINE,
    ID,
    SECRET,
    on_page,
    python_of,
    sent,
    signed_by_hand,
)

JAVASCRIPT = Path(__file__).parent / "javascript"
CASES = [*((name, True) for name in GENUINE), *((name, False) for name in FALSE)]


@pytest.fixture(scope="module")
def javascript(tmp_path_factory):
    """Install the reference library; return a function that does jobs: see javascript/jobs.mjs."""
    folder = install_or_skip(JAVASCRIPT)
    verifier = tmp_path_factory.mktemp("page") / "verifier.mjs"
    verifier.write_text(on_page("javascript", "isGenuine"))

    def do(*jobs):
        return run_script(JAVASCRIPT / "jobs.mjs", folder, verifier, question=jobs)

    return do


def job(what, headers, body, secret=SECRET):
    return {"do": what, "secret": as_text(secret), "headers": headers, "body": base64.b64encode(body).decode()}


def test_the_verifier_in_javascript_tells_what_is_genuine(javascript):
    cases = {**GENUINE, **FALSE}

    told = javascript(*(job("page", *make()) for make in cases.values()))

    assert dict(zip(cases, told, strict=True)) == dict(CASES)


def test_the_verifier_in_javascript_takes_nothing_for_genuine_if_it_has_no_secret(javascript):
    assert javascript(job("page", signed_by_hand(b""), BODY, b"")) == [False]


def test_the_reference_library_in_javascript_takes_what_is_sent(javascript):
    told = javascript(*(job("reference", *make()) for make in GENUINE.values()))

    assert dict(zip(GENUINE, told, strict=True)) == dict.fromkeys(GENUINE, True)
    assert javascript(job("reference", sent(), BODY, FOREIGN_SECRET)) == [False]


def test_what_the_reference_library_in_javascript_signs_is_genuine(javascript):
    headers = sent()
    signing = {**job("sign", {}, BODY), "id": ID, "timestamp": int(headers["webhook-timestamp"])}

    (headers["webhook-signature"],) = javascript(signing)

    assert python_of("is_genuine")(as_text(SECRET), headers, BODY)
    assert javascript(job("page", headers, BODY)) == [True]


def test_the_lock_of_the_reference_library_names_no_index():
    lock = (JAVASCRIPT / "package-lock.json").read_text()

    assert "resolved" not in lock
    assert "://" not in lock
    packages = json.loads(lock)["packages"]
    assert [name for name, package in packages.items() if name and "integrity" not in package] == []
