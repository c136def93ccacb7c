"""The page that ranks agents and payees, where there is little or nothing to rank; `test_pictures.py` has the rest."""

from decimal import Decimal

import pytest

from ledger.templatetags.figures import percent


@pytest.mark.parametrize("query", ["?asset=EUR", "?days=5", "?days=x&p=9", "?asset=SOL&p=-1", ""])
def test_whatever_else_is_asked_of_that_page_it_answers(auditor, query):
    assert auditor.client.get(f"/console/spending/agents/{query}").status_code == 200


def test_there_is_a_page_of_agents_and_of_payees_alone(auditor, make_person):
    assert auditor.client.get("/console/spending/chains/").status_code == 404
    assert make_person().client.get("/console/spending/agents/").status_code == 403


@pytest.mark.parametrize(
    ("share", "written"),
    [
        ("0", "0.0%"),
        ("0.00003", "less than 0.01%"),
        ("0.0005", "0.05%"),
        ("0.0123", "1.2%"),
        ("0.104", "10%"),
        ("1.5", "150%"),
    ],
)
def test_a_part_of_a_whole_can_be_read_however_small(share, written):
    assert percent(Decimal(share)) == written
