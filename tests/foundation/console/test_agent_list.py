"""The list of agents by what they have used, and how long their money lasts."""

import random
import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from foundation.kernel.times import utc_now
from ledger.queries import find_budgets
from ledger.usage import find_usage
from policy.models import Agent
from tests.ledger.test_repaired_windows import Traveller
from tests.support.factories import decide, make_agent, make_service
from tests.support.past_movements import give_back_one

AGENT = "policy_agent"


def spend(agent, *amounts, days=0):
    service = make_service()
    for amount in amounts:
        decide(agent, service, amount, at=utc_now() - timedelta(days=days, minutes=5))
    return agent


def listed(person, **query):
    page = person.get(f"{AGENT}_changelist", **query).content.decode()
    return re.findall(r'<th class="field-id[^"]*"><a [^>]*>([^<]+)</a>', page)


def test_agents_are_ordered_by_the_part_of_a_limit_they_have_used(auditor):
    none = make_agent()
    week = spend(make_agent(daily_limit="50", weekly_limit="60"), "10", "10", "10", days=2)  # 50 % of the week
    spend(week, "5")  # 10 % of the day, 58 % of the week
    day = spend(make_agent(daily_limit="20", weekly_limit="1000"), "10")  # 50 % of the day
    ours = [none.id, week.id, day.id]

    def order(by):
        return [one for one in listed(auditor, by=by) if one in ours]

    assert order("day") == [day.id, week.id, none.id]
    assert order("week") == [week.id, day.id, none.id]


def test_agents_are_ordered_by_how_long_their_money_lasts(auditor):
    unused, long, short = make_agent(), make_agent(balance="100"), make_agent(balance="20")
    for agent in (long, short):
        spend(agent, "7")

    ours = {unused.id, long.id, short.id}
    assert [one for one in listed(auditor, by="runway") if one in ours] == [short.id, long.id, unused.id]


@pytest.mark.parametrize(("need", "is_near", "is_dry"), [("limit", True, False), ("dry", False, True)])
def test_those_are_listed_that_need_somebody(auditor, need, is_near, is_dry):
    near = spend(make_agent(daily_limit="10", balance="1000"), "8")
    below = spend(make_agent(daily_limit="10", balance="1000"), "7.99")
    dry = spend(make_agent(balance="17"), "7", "7")  # 3 left, at 2 a day
    lasting = spend(make_agent(balance="20"), "7", "7")  # 6 left, at 2 a day

    found = listed(auditor, need=need)

    assert (near.id in found, dry.id in found) == (is_near, is_dry)
    assert below.id not in found
    assert lasting.id not in found


def test_order_need_status_and_asset_go_together(auditor):
    agent, paused = (spend(make_agent(daily_limit="10"), "9") for _ in range(2))
    Agent.objects.filter(pk=paused.pk).update(status="paused")

    assert listed(auditor, need="limit", by="day", status__exact="paused", q=paused.id) == [paused.id]
    assert listed(auditor, need="limit", status__exact="paused", q=agent.id) == []
    assert listed(auditor, by="day", asset__exact="SOL", q=agent.id) == []


def test_words_and_bars_say_how_much_is_used(auditor):
    agent = spend(make_agent(), "9")
    row = auditor.get(f"{AGENT}_changelist", q=agent.id).content.decode()

    assert '<meter class="usage"' in row
    assert "9.00 of 50.00 (18%)" in row
    assert "9.00 of 100.00 (9%)" in row
    assert "no spend lately" in auditor.get(f"{AGENT}_changelist", q=make_agent().id).content.decode()


@pytest.mark.parametrize("query", [{}, {"by": "runway"}, {"need": "limit", "by": "day"}])
def test_the_list_asks_no_question_per_agent(auditor, query):
    def count():
        with CaptureQueriesContext(connection) as queries:
            auditor.get(f"{AGENT}_changelist", **query)
        return len(queries)

    spend(make_agent(daily_limit="10"), "9")
    few = count()
    for _ in range(4):
        spend(make_agent(daily_limit="10"), "9")

    assert count() == few


def test_usage_is_what_the_budgets_say(db):
    agents = [make_agent(), spend(make_agent(), "1", "2"), spend(make_agent(), "3", days=3)]
    returned = spend(spend(make_agent(), "4", days=2), "5", "6")
    for _ in range(2):
        give_back_one(returned, utc_now(), random.Random(3))
    ids = [*(agent.id for agent in agents), returned.id]
    budgets = find_budgets(ids)

    assert len(budgets) == len(find_usage(ids)) == 4
    for one in find_usage(ids):
        budget = budgets[one.agent_id]
        assert (one.balance, one.spent_today, one.spent_this_week) == (
            budget.balance, budget.spent_today, budget.spent_this_week
        )  # fmt: skip
        assert (one.daily_limit, one.weekly_limit) == (budget.daily_limit, budget.weekly_limit)


@pytest.mark.parametrize("seed", range(3))
def test_usage_is_what_the_budgets_say_of_a_repaired_agent_too(db, seed):
    chance, travelled = random.Random(seed), Traveller(make_agent(), real=utc_now() - timedelta(days=9))
    for step in range(16):
        travelled.real += timedelta(hours=12)
        travelled.ahead = timedelta(hours=chance.randint(0, 30)) if step % 4 == 2 else travelled.ahead
        if step % 4 == 3:
            travelled.repair()
        travelled.spend(Decimal(chance.randint(1, 500)) / 100)
    agent = travelled.agent
    Agent.objects.filter(pk=agent.pk).update(spent_total=travelled.total, last_entry_at=travelled.head[1])

    (one,), budget = find_usage([agent.id]), find_budgets([agent.id])[agent.id]
    assert travelled.repairs
    assert (one.spent_today, one.spent_this_week) == (budget.spent_today, budget.spent_this_week)
    assert one.spent_this_week > Decimal(0)
