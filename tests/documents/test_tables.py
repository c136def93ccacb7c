"""The tables of the pages have what the code has."""

import re

from foundation.api.errors import STATUS
from foundation.kernel.errors import ContractError
from policy.holding_rules import PERSON_RULE
from policy.rules import RULES, SIGNER_RULE
from tests.documents.pages import text_of

ERRORS = "docs/integrate/errors.md"


def test_the_page_of_errors_has_every_code_and_no_other():
    table = text_of(ERRORS).split("| HTTP | `code` |")[1].split("\n\n")[0]
    told = {code for row in table.splitlines()[2:] for code in re.findall(r"`(\w+)`", row.split("|")[2])}

    assert told == {error.code for error in ContractError.__subclasses__()}


def test_the_page_of_errors_has_every_rule_in_the_order_of_evaluation_with_what_it_answers():
    table = text_of(ERRORS).split("| `rule` | Blocks | With |")[1].split("\n\n")[0]
    told = [(row.split("|")[1].strip(), row.split("|")[3].strip()) for row in table.splitlines()[2:]]

    assert told == [
        (f"`{rule.name}`", "202" if rule.holds else f"{STATUS[rule.refuses_with]} `{rule.refuses_with.code}`")
        for rule in (*RULES, PERSON_RULE, SIGNER_RULE)
    ]


def test_the_contract_has_every_rule_in_the_order_of_evaluation():
    listed = (
        text_of("docs/contract.md")
        .split("## Rules and their names")[1]
        .split("A limit of")[0]
        .partition("`agent_active`")
    )

    assert re.findall(r"`(\w+)`", "".join(listed[1:])) == [rule.name for rule in (*RULES, SIGNER_RULE)]
