"""docs/integrate/errors: one page for each code, and each shows what the code really answers."""

import json
import re

import pytest

from foundation.api.errors import STATUS
from foundation.api.openapi_views import document
from foundation.kernel.errors import InvalidRequest
from policy.holding_rules import PERSON_RULE
from policy.rules import RULES, SIGNER_RULE
from tests.documents.pages import ROOT, blocks_of, links_of, text_of

CODES = {error.code: error for error in STATUS}
FOLDER = "docs/integrate/errors"
REFUSING = [rule for rule in (*RULES, PERSON_RULE, SIGNER_RULE) if not rule.holds]
# The headings of a page, in their order; what belongs to some codes alone follows.
HEADINGS = ["What your program does", "What a person does"]


def page_of(code):
    return f"{FOLDER}/{code}.md"


def examples_in_the_document():
    """The bodies that the OpenAPI document shows: they are made by the code that refuses."""
    operations = [one for path in json.loads(document())["paths"].values() for one in path.values()]
    answers = [answer for operation in operations for answer in operation["responses"].values()]
    contents = [answer["content"]["application/json"] for answer in answers if answer.get("content")]
    return [shown["value"] for content in contents for shown in content.get("examples", {}).values()]


def rules_of(error):
    return [rule.name for rule in REFUSING if rule.refuses_with is error]


def test_every_code_has_a_page_and_there_is_no_other():
    assert {path.name for path in (ROOT / FOLDER).iterdir()} == {f"{code}.md" for code in CODES}


@pytest.mark.parametrize("code", CODES)
def test_a_page_begins_with_its_code_its_status_and_what_becomes_of_the_key(code):
    lines, error = text_of(page_of(code)).splitlines(), CODES[code]

    assert lines[0] == f"# `{code}`"
    row = next(line for line in lines if re.match(r"\| \d", line))
    status, retry, _ = (cell.strip() for cell in row.strip("|").split("|"))
    assert status == str(STATUS[error])
    assert retry.partition(";")[0] == f"`{json.dumps(error.retry)}`"
    assert ("with a `rule`" in retry) is (error is InvalidRequest)


@pytest.mark.parametrize("code", CODES)
def test_a_page_shows_what_the_code_really_answers(code):
    shown = [json.loads(block.text) for block in blocks_of(page_of(code)) if block.language == "json"]
    real = examples_in_the_document()

    assert shown
    assert [one for one in shown if one not in real] == []
    assert {one["error"]["code"] for one in shown} == {code}
    # In the order in which they are sent.
    assert [list(one["error"])[:4] for one in shown] == [["code", "message", "retry", "docs"]] * len(shown)


@pytest.mark.parametrize("code", CODES)
def test_a_page_says_what_a_program_and_a_person_do(code):
    headings = re.findall(r"^## (.+)$", text_of(page_of(code)), re.MULTILINE)

    assert headings[: len(HEADINGS)] == HEADINGS


@pytest.mark.parametrize("code", CODES)
def test_a_page_names_the_rules_that_refuse_with_its_code_and_no_other(code):
    rows = re.findall(r"^\| `(\w+)` \|", text_of(page_of(code)), re.MULTILINE)
    names = {rule.name for rule in REFUSING}

    assert [name for name in rows if name in names] == rules_of(CODES[code])


@pytest.mark.parametrize("code", CODES)
def test_the_overview_leads_to_the_page_of_each_code(code):
    assert links_of("docs/integrate/errors.md").count(f"errors/{code}.md") == 1


def test_the_page_of_budgets_explains_every_figure():
    page = text_of(page_of("budget_exceeded"))
    shown = [
        one["error"] for one in examples_in_the_document() if one.get("error", {}).get("code") == "budget_exceeded"
    ]

    figures = {name for error in shown for name in error} - {"code", "message", "retry", "docs", "logId"}
    assert figures - set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == set()
