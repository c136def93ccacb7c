"""The preview of a policy that asks a person: what it would have held, beside what it would have refused."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from foundation.kernel.errors import BudgetExceeded
from foundation.kernel.times import utc_now
from ledger.models import HoldAnswer
from ledger.preview import preview_limits
from payments.environment import payment_environment
from payments.holding.answering import answer_hold
from payments.holding.finishing import finish_hold
from policy.limits import Limits
from policy.more_limits import MoreLimits
from tests.support.factories import decide, make_agent, make_service

pytestmark = pytest.mark.django_db
MUCH = Decimal(1000)


def preview(agent, *, daily=MUCH, **more):
    agent.refresh_from_db()
    return preview_limits(agent, Limits(MUCH, daily, MUCH, None, MoreLimits(**more)), now=utc_now(), payees={})


@pytest.fixture
def service_held():
    """An agent, and a payee that it has paid after a person had approved it."""
    agent, service = make_agent(approval_above=Decimal(1)), make_service()
    held = decide(agent, service, "2")
    answer_hold(str(held.payment_id), HoldAnswer.APPROVE, by="fiona", reason="It is needed.")
    finish_hold(str(held.payment_id), replace(payment_environment(), wake=lambda _chain: None))
    return agent, service


def look(agent, **options):
    """Return how many a person would have been asked about, by rule, and how many were refused."""
    seen = preview(agent, **options)
    assert seen.otherwise == len(seen.newest())
    return dict(seen.held.by_rule), seen.refused.count


def test_what_a_person_would_have_been_asked_about_is_counted_by_the_rule_that_asks():
    agent, service, other = make_agent(), make_service(), make_service()
    began = utc_now() - timedelta(days=5)
    for day, (payee, amount) in enumerate([(service, "2"), (service, "6"), (other, "1"), (other, "5")]):
        decide(agent, payee, amount, at=began + timedelta(days=day))

    assert look(agent) == ({}, 0)
    assert look(agent, approval_above=Decimal(5)) == ({"under_approval_limit": 1}, 0)
    assert look(agent, approval_above=Decimal("4.99")) == ({"under_approval_limit": 2}, 0)
    assert look(agent, approval_for_first=True) == ({"payee_paid_before": 2}, 0)
    assert look(agent, approval_above_day=Decimal(4)) == ({"under_daily_approval_limit": 2}, 0)


def test_the_sum_of_a_day_asks_however_it_is_split():
    agent, service, began = make_agent(), make_service(), utc_now() - timedelta(days=3)
    for minute in range(4):
        decide(agent, service, "2", at=began + timedelta(minutes=minute))

    assert look(agent, approval_above_day=Decimal(5)) == ({"under_daily_approval_limit": 2}, 0)


def test_what_is_refused_asks_nobody():
    agent, service = make_agent(), make_service()
    decide(agent, service, "6", at=utc_now() - timedelta(days=3))

    assert look(agent, daily=Decimal(5), approval_above=Decimal(1)) == ({}, 1)


def test_what_a_person_has_approved_is_nothing_new_and_is_judged_once(service_held):
    agent, _ = service_held

    assert look(agent, approval_above=Decimal(1)) == ({}, 0)
    assert look(agent, daily=Decimal(1)) == ({}, 1)


def test_what_was_refused_and_would_wait_for_a_person_is_not_let_through():
    agent, service = make_agent(daily_limit="4"), make_service()
    with pytest.raises(BudgetExceeded):
        decide(agent, service, "5")

    seen = preview(agent, approval_above=Decimal(1))

    assert (seen.let_through.count, dict(seen.held.by_rule)) == (0, {"under_approval_limit": 1})


def test_what_nobody_would_be_asked_about_any_more_is_counted(service_held):
    agent, service = service_held
    held = decide(agent, service, "3")
    answer_hold(str(held.payment_id), HoldAnswer.DECLINE, by="fiona", reason="Not this one.")
    finish_hold(str(held.payment_id), replace(payment_environment(), wake=lambda _chain: None))

    seen = preview(agent, approval_above=Decimal(5))

    assert (seen.unasked.count, dict(seen.let_through.by_rule)) == (1, {"approved_by_person": 1})
