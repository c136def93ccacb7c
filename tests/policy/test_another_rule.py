"""A rule that is added to `RULES` is shown wherever rules are, and asked wherever they are, by what it carries."""

import json
import subprocess
import sys

import pytest
from django.conf import settings

from tests.policy.with_another_rule import ANOTHER
from tests.support.house import server_environment

pytestmark = pytest.mark.long(20)
NAME, WORDS = ANOTHER.name, ANOTHER.words


@pytest.fixture(scope="module")
def shown(django_db_setup, django_db_blocker):
    """All that a process shows whose policy has one rule more: each page, export, preview, command and tool."""
    with django_db_blocker.unblock():
        environment = server_environment()
    command = [sys.executable, "-W", "error", "-m", "tests.policy.with_another_rule"]
    ended = subprocess.run(
        command, env=environment, cwd=settings.BASE_DIR, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_it_refuses_with_its_error_its_sentence_and_its_figures(shown):
    error = shown["refusal"]["error"]

    assert (error["code"], error["rule"]) == ("budget_exceeded", NAME)
    assert error["message"] == "The half-daily limit is 25.00 USDC, of which 20.00 is spent."
    assert (error["limit"], error["spent"], error["requested"], error["remaining"]) == (
        "25.00",
        "20.00",
        "6.00",
        "5.00",
    )
    assert error["allowedAt"] is not None


def test_an_evaluation_says_whether_it_passes_and_with_which_figures(shown):
    passed, refused = (shown[f"evaluation of what {what}"] for what in ("passes", "is refused"))

    def said(evaluation):
        return next(one for one in evaluation["rules"] if one["rule"] == NAME)

    assert (passed["result"], refused["result"], refused["rule"]) == ("approved", "blocked", NAME)
    assert (said(passed)["passed"], said(passed)["headroom"]) == (True, "15.00")
    assert (said(refused)["passed"], said(refused)["remaining"]) == (False, "5.00")


def test_the_log_has_what_it_records_of_an_approval(shown):
    refused, second, first = shown["log"]["data"]

    assert (refused["rule"], refused["explanation"]["limit"]) == (NAME, "25.00")
    assert [one["explanation"]["spentSoFar"] for one in (first, second)] == ["10.00", "20.00"]
    assert first["explanation"]["halfLimit"] == "25.00"


@pytest.mark.parametrize("page", ["page", "entry"])
def test_the_pages_of_an_approval_say_that_it_passed_and_with_which_figures(shown, page):
    said = "Limit 25.00 USDC Spent before 0.00 USDC This payment 10.00 USDC Left after 15.00 USDC"

    assert f"{WORDS.passed} {said}" in shown[f"{page} of an approved payment"]


def test_the_page_of_its_refusal_says_that_it_refused_and_what_it_compared(shown):
    compared = "Limit 25.00 USDC Spent before 20.00 USDC Asked for 6.00 USDC Would have fitted 5.00 USDC"

    page = shown["entry of a refused payment"]
    assert page.startswith("200 ")
    assert WORDS.refused in page
    assert compared in page


@pytest.mark.parametrize(
    "page", ["receipt of a refused payment", "list of decisions", "list of its refusals", "agent", "search"]
)
def test_what_shows_a_refusal_says_its_words(shown, page):
    assert shown[page].startswith("200 ")
    assert WORDS.refused in shown[page]


def test_its_refusals_are_found_by_the_filter_and_exported_by_its_name(shown):
    (row,) = shown["export of its refusals"].splitlines()[-1:]

    assert "1 decision" in shown["list of its refusals"]
    assert NAME in row


def test_the_homes_picture_counts_its_refusals(shown):
    assert f"refused: {WORDS.short} 1" in shown["home"]


def test_the_preview_of_a_lower_limit_asks_it_of_what_was_approved(shown):
    page = shown["preview of 16 a day"]

    assert "Refused, though they were approved 2 payments, 20.00 USDC" in page
    assert f"{WORDS.refused} 2 20.00" in page


def test_the_preview_of_a_higher_limit_asks_it_of_what_it_refused(shown):
    page = shown["preview of 60 a day"]

    assert "Let through, though they were refused 1 payment, 6.00 USDC" in page
    assert f"{WORDS.refused} 1 6.00" in page


def test_the_document_of_the_api_names_it_with_its_example_and_what_it_records(shown):
    document = shown["document"]
    parts = document["components"]["schemas"]
    refusals = document["paths"]["/v1/payments/request"]["post"]["responses"]["422"]["content"]["application/json"]

    assert parts["Rule"]["enum"][-3:] == [NAME, "under_max_payment", "policy_signer_available"]
    assert {"spentSoFar", "halfLimit"} <= parts["Explanation"]["properties"].keys()
    assert NAME in {shown["value"]["error"]["rule"] for shown in refusals["examples"].values()}


@pytest.mark.parametrize("tool", ["tool that evaluates", "tool that pays"])
def test_a_model_is_told_what_it_says_and_when_to_come_again(shown, tool):
    told = shown[tool]

    assert (told["code"], told["rule"], told["limit"], told["remaining"]) == ("budget_exceeded", NAME, "25.00", "5.00")
    assert "`allowed_at`" in told["what_to_do"]


def test_a_model_is_listed_its_refusals(shown):
    assert NAME in {decision["rule"] for decision in shown["tool that lists"]["decisions"]}


def test_the_log_with_its_decisions_verifies(shown):
    lines, told = shown["verified log"]

    assert told is None
    assert json.loads(lines[-1])["problems"] == []
