"""What nginx answers by itself has the members that every error has."""

import json
import re

import pytest

from foundation.api.errors import STATUS, envelope
from foundation.kernel.errors import PayloadTooLarge, PolicySignerUnavailable, RateLimited
from workshop.localnet.folder import ROOT

ANSWERS = re.findall(r"return (\d+) '(\{.*\})';", (ROOT / "deploy/nginx/allowance.conf").read_text())


@pytest.mark.parametrize("error", [PayloadTooLarge(), RateLimited(retry_after_s=1), PolicySignerUnavailable()])
def test_an_answer_of_the_proxy_has_the_members_of_ours(error):
    bodies = {status: json.loads(body)["error"] for status, body in ANSWERS}
    expected = envelope(error)["error"]

    found = bodies[str(STATUS[type(error)])]

    assert list(found) == list(expected)
    assert {**found, "message": ""} == {**expected, "message": ""}


def test_the_proxy_gives_no_other_answers():
    assert len(ANSWERS) == 3
