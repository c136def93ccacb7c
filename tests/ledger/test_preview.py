"""The preview of other limits: what they would have refused or let through, with its sums."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from foundation.kernel.errors import ContractError
from foundation.kernel.times import utc_now
from ledger import preview, spends_before
from ledger.past import Payee
from ledger.preview import preview_limits
from policy.limits import Limits
from policy.objections import NOT_ON_THE_LIST
from policy.operations import set_policy
from tests.support.factories import decide, make_agent, make_service
from tests.support.past_movements import fund_at

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
WIDE = Limits(Decimal(1000), Decimal(1000), Decimal(1000))


@pytest.fixture
def now():
    return utc_now() - timedelta(days=3)


def ask(agent, service, amount, at):
    try:
        return decide(agent, service, amount, at=at).id
    except ContractError as refusal:
        return refusal.details["logId"]


def look(agent, limits, now, **options):
    agent.refresh_from_db()
    return preview_limits(agent, limits, now=now, payees=options.pop("payees", {}), **options)


def test_it_says_what_a_lower_limit_would_have_refused(service, now):
    agent = make_agent(max_per_payment="10", daily_limit="50", weekly_limit="100")
    ids = [ask(agent, service, amount, now - 5 * DAY + number * HOUR) for number, amount in enumerate("64321")]

    seen = look(agent, replace(WIDE, daily_limit=Decimal(9)), now)

    # 6, not 4 more, 3, not 2 more, not 1 more
    assert (seen.refused.count, seen.refused.total) == (3, 7)
    assert (dict(seen.refused.by_rule), dict(seen.refused.total_by_rule)) == (
        {"under_daily_limit": 3},
        {"under_daily_limit": 7},
    )
    assert [one.past.id for one in seen.refused.newest] == [ids[4], ids[3], ids[1]]
    assert (seen.decisions, seen.is_capped, seen.let_through.count) == (5, False, 0)


def test_it_says_what_a_higher_limit_would_have_let_through(service, now):
    agent = make_agent(max_per_payment="5", daily_limit="8", weekly_limit="9")
    for number, amount in enumerate(["5", "4", "7", "3"]):
        ask(agent, service, amount, now - 5 * DAY + number * HOUR)

    seen = look(agent, Limits(Decimal(10), Decimal(16), Decimal(16)), now)

    # 5, then 4 and 7, which leave no room for the 3 that was approved
    assert (seen.let_through.count, seen.let_through.total) == (2, 11)
    assert dict(seen.let_through.by_rule) == {"under_daily_limit": 1, "under_weekly_limit": 1}
    assert (seen.refused.count, seen.refused.total) == (1, 3)


def test_the_week_before_counts_as_it_was_spent(service, now):
    agent = make_agent(max_per_payment="50", daily_limit="80", weekly_limit="100")
    ask(agent, service, "50", now - preview.PERIOD - HOUR)
    ask(agent, service, "30", now - preview.PERIOD + HOUR)

    assert look(agent, replace(WIDE, daily_limit=Decimal(79)), now).refused.count == 1
    assert look(agent, replace(WIDE, daily_limit=Decimal(80)), now).refused.count == 0
    assert look(agent, replace(WIDE, max_per_payment=Decimal(40)), now).refused.count == 0  # the 50 are not judged


def test_a_service_that_is_taken_off_the_list_is_refused_and_one_that_comes_on_it_is_let_through(db, now):
    kept, taken, added = make_service(), make_service(), make_service()
    agent = make_agent(services=[kept.id, taken.id], balance="0")
    fund_at(agent, now - 6 * DAY, "20")
    for number, service in enumerate((kept, taken, added, added, added)):
        ask(agent, service, "9", now - 5 * DAY + number * HOUR)
    payees = {added.id: Payee("USDC", None)}

    seen = look(agent, replace(WIDE, allowed_services=[kept.id, added.id]), now, payees=payees)

    assert dict(seen.refused.by_rule) == {"service_approved": 1}
    # The balance was 2 after the first two payments, and stays as it was.
    assert seen.let_through.count == 0
    set_policy(agent.id, change=lambda _limits: replace(WIDE, allowed_services=[kept.id]), by="test")
    ask(agent, added, "1.5", now - DAY)
    again = look(agent, WIDE, now, payees=payees)
    assert (again.let_through.count, again.let_through.total) == (1, Decimal("1.5"))
    assert dict(again.let_through.by_rule) == {"service_approved": 1}


def test_a_service_that_comes_on_the_list_is_judged_with_its_payee_as_it_is_now(service, now):
    agent = make_agent(services=[], balance="0")
    fund_at(agent, now - 2 * DAY, "1")
    ask(agent, service, "1", now - DAY)

    def let_through(payee):
        return look(agent, WIDE, now, payees={service.id: payee}).let_through.count

    assert let_through(Payee("USDC", Decimal(1))) == 1
    assert let_through(Payee("USDC", Decimal("1.01"))) == 0
    assert let_through(Payee("EURC", None)) == 0


def test_what_another_rule_refused_stays_refused(db, now):
    waiting = make_service(approved=False)
    agent = make_agent(balance="0", services=[])
    fund_at(agent, now - 2 * DAY, "1")
    ask(agent, waiting, "1", now - DAY)

    assert look(agent, WIDE, now, payees={waiting.id: Payee("USDC", None)}).let_through.count == 0
    poor = make_agent(balance="1")
    ask(poor, make_service(), "2", now - DAY)
    assert look(poor, WIDE, now).let_through.count == 0


def test_of_very_many_decisions_the_newest_are_judged_by_all_that_was_spent_before(service, now, monkeypatch):
    monkeypatch.setattr(spends_before, "MOST_SPENDS", 2)
    agent = make_agent(max_per_payment="10", daily_limit="50", weekly_limit="100")
    times = [now - 5 * DAY + number * HOUR for number in range(8)]
    for at in times:
        ask(agent, service, "2", at)

    seen = look(agent, replace(WIDE, daily_limit=Decimal(14)), now, most=3)

    assert (seen.decisions, seen.is_capped, seen.since) == (3, True, times[5])
    assert seen.refused.count == 1
    assert look(agent, replace(WIDE, daily_limit=Decimal(16)), now, most=3).refused.count == 0


def test_an_agent_that_asked_for_nothing_has_nothing_to_see(agent, now):
    seen = look(agent, WIDE, now)

    assert (seen.decisions, seen.refused.count, seen.let_through.count, seen.is_capped) == (0, 0, 0, False)


def test_the_log_says_in_these_words_that_a_service_is_not_on_the_list(service, now):
    agent = make_agent(services=[])
    with pytest.raises(ContractError, match=NOT_ON_THE_LIST):
        decide(agent, service, at=now)
