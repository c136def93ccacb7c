"""From a decision to what the log and the answer say of it."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial

import pytest

from foundation.kernel.errors import BudgetExceeded
from foundation.kernel.times import format_instant, utc_now
from ledger.queries import find_fitting_moment
from payments.deciding.entries import explain_refusal
from policy.asking import ask_rules
from policy.facts import EXAMPLE_FACTS
from policy.models import Agent
from policy.objections import DAY, WindowLimit
from policy.rule import Rule, Words
from policy.rules import RULES
from tests.support.factories import decide, make_agent, make_service

HOUR = timedelta(hours=1)
SECOND_LIMIT = Decimal(20)


ANY_WORDS = Words("passed", "refused", "short")
SECOND_DAILY = WindowLimit("second daily", DAY, lambda _: SECOND_LIMIT, lambda facts: facts.spent_today, ("one", "two"))
ANOTHER = Rule("under_second_daily_limit", BudgetExceeded, SECOND_DAILY.check, ANY_WORDS, varies=True)
RULES_AND_ANOTHER = (*RULES, ANOTHER)


@pytest.mark.django_db
@pytest.mark.parametrize(("amount", "waits_for"), [("2.01", 0), ("10", 0), ("12", 0), ("12.01", 1), ("20", 1)])
def test_a_rule_that_is_added_is_allowed_when_its_own_window_has_room(amount, waits_for):
    start = utc_now() - timedelta(days=60)
    agent = make_agent(max_per_payment="20")
    for number, spent in enumerate(("10", "8")):
        decide(agent, make_service(), spent, at=start + number * HOUR)
    # The first daily limit, of 50, has room for any of these.
    facts = replace(EXAMPLE_FACTS, amount=Decimal(amount), spent_today=Decimal(18), max_per_payment=SECOND_LIMIT)

    decision = ask_rules(facts, lambda _more: RULES_AND_ANOTHER)
    total = Agent.objects.get(pk=agent.id).spent_total
    find_moment = partial(find_fitting_moment, agent.id, "", total, start + 2 * HOUR)

    assert decision.rule.name == "under_second_daily_limit"
    assert explain_refusal(decision, facts, find_moment)["allowedAt"] == format_instant(start + DAY + waits_for * HOUR)
