"""The limits of a policy, end to end: below, at and above, and what a refusal tells."""

from dataclasses import replace as change
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from foundation.kernel.times import format_instant
from policy.operations import set_policy
from tests.support.answers import error_of
from tests.support.factories import decide
from tests.support.refusals import assert_logged, assert_nothing_moved, body_for, refused, wealthy

MILLISECOND = timedelta(milliseconds=1)
DAY = timedelta(hours=24)
WEEK = timedelta(days=7)


# --- Limits, below, at and above
@pytest.mark.parametrize(
    ("limit", "rule"),
    [
        ("balance", "balance_covers_payment"),
        ("weekly_limit", "under_weekly_limit"),
        ("daily_limit", "under_daily_limit"),
        ("max_per_payment", "under_max_payment"),
    ],
)
@pytest.mark.parametrize(
    ("amount", "passes"), [("4.999999", True), ("5", True), ("5.000000", True), ("5.000001", False), ("6", False)]
)
def test_a_payment_up_to_a_limit_is_approved_and_above_it_is_422(api, service, *, limit, rule, amount, passes):
    agent = wealthy(**{limit: "5"})

    response = api.pay(body_for(agent, service, amount))

    if passes:
        assert response.status_code == 201
    else:
        assert_logged(agent, error_of(response, 422, "budget_exceeded"), rule)
        assert_nothing_moved(agent)


@pytest.mark.parametrize("limit", ["balance", "weekly_limit", "daily_limit"])
def test_payments_add_up_to_a_limit_and_not_beyond(api, service, limit):
    agent = wealthy(**{limit: "5"})

    answers = [api.pay(body_for(agent, service, amount)).status_code for amount in ("3", "2.000001", "2", "0.000001")]

    assert answers == [201, 422, 201, 422]


def test_a_refused_payment_does_not_count_as_spent(api, service):
    agent = wealthy(daily_limit="5")
    for _ in range(3):
        assert api.pay(body_for(agent, service, "5.01")).status_code == 422

    assert api.pay(body_for(agent, service, "5")).json()["spentToday"] == "5.00"


@pytest.mark.parametrize(
    ("limit", "rule"),
    [
        ("balance", "balance_covers_payment"),
        ("weekly_limit", "under_weekly_limit"),
        ("daily_limit", "under_daily_limit"),
        ("max_per_payment", "under_max_payment"),
    ],
)
def test_zero_lets_nothing_pass(api, service, limit, rule):
    agent = wealthy(**{limit: "0"})

    error = error_of(api.pay(body_for(agent, service, "0.000001")), 422, "budget_exceeded")

    assert_logged(agent, error, rule)
    assert error["allowedAt"] is None


# --- What a refusal tells
def test_a_refusal_by_the_balance_tells_what_remains(service):
    agent = wealthy(balance="7.5")

    details = refused(agent, service, "7.51")

    assert {name: details.get(name) for name in ("limit", "spent", "requested", "remaining", "allowedAt")} == {
        "limit": None, "spent": None, "requested": "7.51", "remaining": "7.50", "allowedAt": None,
    }  # fmt: skip
    assert "limit" not in details


def test_a_refusal_by_the_limit_of_a_payment_tells_the_limit(agent, service):
    details = refused(agent, service, "10.01")

    assert {name: details[name] for name in ("limit", "requested", "remaining", "allowedAt")} == {
        "limit": "10.00", "requested": "10.01", "remaining": "10.00", "allowedAt": None,
    }  # fmt: skip


@pytest.mark.parametrize(("limit", "window"), [("daily_limit", DAY), ("weekly_limit", WEEK)])
def test_a_refusal_by_a_window_tells_what_is_spent_and_when_it_fits(service, start, limit, window):
    agent = wealthy(**{limit: "10"})
    decide(agent, service, "7.5", at=start)

    details = refused(agent, service, "2.51", at=start + timedelta(hours=1))

    assert {name: details[name] for name in ("limit", "spent", "requested", "remaining", "allowedAt")} == {
        "limit": "10.00", "spent": "7.50", "requested": "2.51", "remaining": "2.50",
        "allowedAt": format_instant(start + window),
    }  # fmt: skip


@pytest.mark.parametrize("limit", ["daily_limit", "weekly_limit"])
def test_nothing_remains_of_a_limit_that_was_lowered_below_what_is_spent(service, start, limit):
    agent = wealthy()
    decide(agent, service, "8", at=start)
    lowered: dict[str, Any] = {limit: Decimal(5)}
    set_policy(agent.id, change=lambda limits: change(limits, **lowered), by="test")

    details = refused(agent, service, "1", at=start + MILLISECOND)

    assert (details["remaining"], details["spent"], details["policyRevision"]) == ("0.00", "8.00", "polrev_2")


@pytest.mark.parametrize(
    ("limits", "amount", "rule"),
    [
        ({"daily_limit": "10"}, "10.01", "under_daily_limit"),
        ({"weekly_limit": "10"}, "10.01", "under_weekly_limit"),
        ({"daily_limit": "10", "max_per_payment": "5"}, "6", "under_daily_limit"),
        ({"weekly_limit": "10", "daily_limit": "5"}, "6", "under_weekly_limit"),
    ],
)
def test_a_payment_that_never_fits_has_no_moment(service, start, limits, amount, rule):
    agent = wealthy(**limits)
    decide(agent, service, "5", at=start)

    details = refused(agent, service, amount, at=start + timedelta(hours=1))

    assert (details["rule"], details["allowedAt"]) == (rule, None)
