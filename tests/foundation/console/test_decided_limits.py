"""What the page of a decision says of the optional limits that a policy had."""

import re
from datetime import datetime, timedelta
from decimal import Decimal
from html import unescape

import pytest

from foundation.kernel.errors import ContractError
from foundation.kernel.times import utc_now
from policy.hours import parse_hours
from tests.support.factories import decide, make_agent, make_service

ALWAYS = parse_hours("daily 00:00-00:00 UTC")


def ask(agent, service, amount="1", at=None):
    """Ask for a payment; return the id of its decision."""
    try:
        return decide(agent, service, amount, at=at).id
    except ContractError as refusal:
        return refusal.details["logId"]


def rules_on(person, entry_id):
    """Read the rules on a decision's page: its title with what is below it, and its figures."""
    html = person.get("ledger_logentry_change", entry_id).content.decode()
    table = re.search(r'<table class="data rules">(.*?)</table>', html, re.DOTALL)
    assert table, html
    rows = (re.findall(r"<td>(.*?)</td>", row, re.DOTALL) for row in table[1].split("<tr")[2:])
    return {title: (outcome, figures) for outcome, title, figures in ((plain(cell) for cell in row) for row in rows)}


def plain(html):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def test_an_approval_has_counts_as_numbers_amounts_with_their_asset_and_hours_in_words(auditor):
    agent = make_agent(
        hourly_limit=Decimal(20), payments_per_hour=4, payments_per_day=1500, allowed_hours=ALWAYS,
        allowed_until=datetime.fromisoformat("2126-01-01T00:00:00Z"), new_payee_payments=3,
        new_payee_max_per_payment=Decimal(2),
    )  # fmt: skip

    rules = rules_on(auditor, ask(agent, make_service(), "1.5"))

    passed = "✓ passed"
    assert rules["Not too many payments in 60 minutes"] == (passed, "Most payments 4 Made before 0 Left after 3 0.25")
    assert rules["Not too many payments in 24 hours"][1].startswith(
        "Most payments 1,500 Made before 0 Left after 1,499"
    )
    assert "Limit 20.00 USDC" in rules["Within the limit of 60 minutes"][1]
    assert rules["Within the allowed hours"] == (passed, "Hours: daily 00:00-00:00 UTC")
    assert rules["Within the allowance's time"] == (passed, "Until: 2126-01-01T00:00:00.000Z")
    assert "2.00 USDC" in rules["Within the limit of first payments"][1]


@pytest.mark.parametrize(
    ("more", "title", "figures"),
    [
        ({"payments_per_hour": 1}, "Too many payments in 60 minutes", "Limit 1 Made before 1 Asked for 1"),
        ({"hourly_limit": Decimal(1)}, "Above the limit of 60 minutes", "Limit 1.00 USDC Spent before 1.00 USDC"),
    ],
)
def test_a_refusal_has_what_was_compared(auditor, more, title, figures):
    agent, service, now = make_agent(**more), make_service(), utc_now()
    ask(agent, service, at=now - timedelta(minutes=1))

    rules = rules_on(auditor, ask(agent, service, at=now))

    ((outcome, shown),) = [found for words, found in rules.items() if words.startswith(title)]
    assert (outcome, shown.startswith(figures)) == ("✗ refused", True), shown


def test_a_decision_under_a_policy_without_them_says_nothing_of_them(auditor, agent, service):
    rules = rules_on(auditor, ask(agent, service))

    assert not [words for words in rules if "60 minutes" in words or "allowed hours" in words]
