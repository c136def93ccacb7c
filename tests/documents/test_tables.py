"""The tables of the pages have what the code has."""

import re

from foundation.kernel.errors import ContractError
from policy.rules import RULES, SIGNER_RULE
from tests.documents.pages import text_of

ERRORS = "docs/integrate/errors.md"


def test_the_page_of_errors_has_every_code_and_no_other():
    table = text_of(ERRORS).split("| HTTP | `code` |")[1].split("\n\n")[0]
    told = {code for row in table.splitlines()[2:] for code in re.findall(r"`(\w+)`", row.split("|")[2])}

    assert told == {error.code for error in ContractError.__subclasses__()}


def test_the_page_of_errors_has_every_rule_in_the_order_of_evaluation():
    table = text_of(ERRORS).split("| `rule` | Blocks | With |")[1].split("\n\n")[0]
    told = [row.split("|")[1].strip(" `") for row in table.splitlines()[2:]]

    assert told == [name_of(rule) for rule in (*RULES, SIGNER_RULE)]


def name_of(rule):
    return rule if isinstance(rule, str) else getattr(rule, "name", None) or rule.__name__
