"""The windows of a day and a week roll, and a failed payment leaves them at its own time."""

from dataclasses import replace as change
from datetime import timedelta
from decimal import Decimal

import pytest

from foundation.kernel.times import format_instant, utc_now
from ledger.models import MovementKind
from ledger.operations import move_balance
from policy.models import Agent
from policy.operations import set_policy
from policy.parents import lock_agent
from tests.support.factories import decide
from tests.support.refusals import refused, wealthy

MILLISECOND = timedelta(milliseconds=1)
DAY = timedelta(hours=24)
WEEK = timedelta(days=7)


@pytest.mark.parametrize(("limit", "window"), [("daily_limit", DAY), ("weekly_limit", WEEK)])
def test_a_window_is_half_open(service, start, limit, window):
    agent = wealthy(**{limit: "10"})
    decide(agent, service, "10", at=start)

    # (now - window, now]: what was spent exactly one window ago is out, a millisecond later it is still in.
    assert refused(agent, service, at=start + window - MILLISECOND)["spent"] == "10.00"
    assert decide(agent, service, "10", at=start + window).result == "approved"


@pytest.mark.parametrize(("limit", "window"), [("daily_limit", DAY), ("weekly_limit", WEEK)])
def test_what_is_spent_in_this_very_millisecond_counts(service, start, limit, window):
    agent = wealthy(**{limit: "10"})
    decide(agent, service, "10", at=start)

    assert refused(agent, service, at=start)["spent"] == "10.00"


def test_a_window_rolls_and_knows_no_midnight(service):
    agent = wealthy(daily_limit="10")
    evening = (utc_now() - timedelta(days=30)).replace(hour=23, minute=59, second=0)
    decide(agent, service, "10", at=evening)

    assert refused(agent, service, at=evening + timedelta(minutes=2))["spent"] == "10.00"


def test_spent_today_falls_as_the_window_rolls(service, start):
    agent = wealthy()
    hours = [0, 1, 2, 24, 25]

    spent = [decide(agent, service, str(n + 1), at=start + timedelta(hours=hour)) for n, hour in enumerate(hours)]

    # 1; 1+2; 1+2+3; 2+3+4; 3+4+5
    assert [entry.explanation["spentToday"] for entry in spent] == ["1.00", "3.00", "6.00", "9.00", "12.00"]


@pytest.mark.parametrize(("limit", "window"), [("daily_limit", DAY), ("weekly_limit", WEEK)])
@pytest.mark.parametrize(
    ("amount", "waits_for"), [("1", 0), ("2", 1), ("2.5", 1), ("4", 2), ("9.5", 3), ("9.9", 4), ("10", 4)]
)
def test_a_payment_passes_at_allowed_at_and_not_a_millisecond_earlier(
    service, start, *, limit, window, amount, waits_for
):
    agent = wealthy(**{limit: "10"})
    moments = [start + timedelta(seconds=n, milliseconds=37 * n) for n in range(5)]
    for moment, spend in zip(moments, ("1", "1.5", "2", "5", "0.5"), strict=True):
        decide(agent, service, spend, at=moment)

    allowed_at = moments[waits_for] + window
    refusal = refused(agent, service, amount, at=moments[-1] + timedelta(minutes=5))

    assert refusal["allowedAt"] == format_instant(allowed_at)
    assert refused(agent, service, amount, at=allowed_at - MILLISECOND)["allowedAt"] == format_instant(allowed_at)
    assert decide(agent, service, amount, at=allowed_at).result == "approved"


def test_allowed_at_waits_for_both_windows_when_both_are_full(service, start):
    agent = wealthy(weekly_limit="20", daily_limit="10")
    decide(agent, service, "10", at=start)
    almost_a_week = start + WEEK - timedelta(hours=1)
    decide(agent, service, "10", at=almost_a_week)

    details = refused(agent, service, "5", at=almost_a_week + timedelta(minutes=1))

    assert details["rule"] == "under_weekly_limit"
    assert details["allowedAt"] == format_instant(almost_a_week + DAY)
    assert refused(agent, service, "5", at=almost_a_week + DAY - MILLISECOND)["rule"] == "under_daily_limit"
    assert decide(agent, service, "5", at=almost_a_week + DAY).result == "approved"


@pytest.mark.parametrize(("limit", "window"), [("daily_limit", DAY), ("weekly_limit", WEEK)])
def test_a_failed_payment_leaves_the_window_at_its_own_time(service, start, limit, window):
    agent = wealthy(**{limit: "10"})
    failed, kept = decide(agent, service, "6", at=start), decide(agent, service, "4", at=start + timedelta(hours=2))
    move_balance(
        lock_agent(agent.id),
        kind=MovementKind.RETURN,
        amount=Decimal(6),
        by="test",
        payment_id=failed.payment_id,
        spent_at=start,
    )

    assert Agent.objects.get(pk=agent.id).balance == 996
    assert refused(agent, service, "6.01", at=start + timedelta(hours=3))["spent"] == "4.00"
    # Once the original has left the window, it is not taken off a second time.
    assert refused(agent, service, "6.01", at=start + window + timedelta(hours=1))["spent"] == "4.00"
    assert decide(agent, service, "10", at=kept.created_at + window).result == "approved"


def test_a_limit_that_is_raised_holds_at_once(service, start):
    agent = wealthy(daily_limit="10")
    decide(agent, service, "10", at=start)
    refused(agent, service, "1", at=start + MILLISECOND)

    set_policy(agent.id, change=lambda limits: change(limits, daily_limit=Decimal(11)), by="test")

    assert decide(agent, service, "1", at=start + MILLISECOND).policy_revision == 2
