"""The pure rules: facts in, a decision out."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chains.port import Obstacle
from foundation.kernel.assets import Asset
from ledger.models import LogEntry
from policy.asking import ask_rules
from policy.facts import EXAMPLE_FACTS, Facts, PayeeFacts
from policy.holding_rules import PERSON_RULE
from policy.hours import parse_hours
from policy.more_limits import PARTS, MoreLimits
from policy.rules import RULE_NAMES, RULES, SERVICE_RULE, SIGNER_RULE, find_rule, rules_for_approved

NOW = datetime(2026, 5, 14, 18, 42, 11, 123000, UTC)
PASSING = Facts(
    amount=Decimal(5),
    asset=Asset.USDC,
    agent_is_active=True,
    agent_asset=Asset.USDC,
    balance=Decimal(1000),
    max_per_payment=Decimal(10),
    daily_limit=Decimal(50),
    weekly_limit=Decimal(100),
    spent_today=Decimal(0),
    spent_this_week=Decimal(0),
    allowed_services=None,
    payee=PayeeFacts(id="shop", is_approved=True, asset=Asset.USDC, approved_at=NOW - timedelta(minutes=59)),
    minimum=Decimal("0.000001"),
    at=NOW,
)
# One way to fail each rule alone, in the order of the contract.
FAULTS: dict[str, dict[str, Any]] = {
    "agent_active": {"agent_is_active": False},
    "service_approved": {"allowed_services": frozenset({"other"})},
    "service_payable": {"payee": PayeeFacts("shop", is_approved=True, asset=Asset.USDC, obstacle=Obstacle("No."))},
    "asset_matches": {"agent_asset": Asset.EURC},
    "above_minimum": {"minimum": Decimal("5.000001")},
    "balance_covers_payment": {"balance": Decimal("4.99")},
    "within_dates": {"allowed_until": NOW},
    "within_hours": {"allowed_hours": parse_hours("mon-fri 00:00-18:42 UTC")},
    "new_payee_waited": {"new_payee_wait_hours": 1},
    "under_total_limit": {"total_limit": Decimal("4.99")},
    "under_monthly_limit": {"monthly_limit": Decimal("4.99")},
    "under_weekly_limit": {"weekly_limit": Decimal("4.99")},
    "under_daily_limit": {"daily_limit": Decimal("4.99")},
    "under_hourly_limit": {"hourly_limit": Decimal("4.99")},
    "under_daily_count": {"payments_per_day": 0},
    "under_hourly_count": {"payments_per_hour": 0},
    "under_payee_weekly_limit": {"payee_weekly_limit": Decimal("4.99")},
    "under_payee_daily_limit": {"payee_daily_limit": Decimal("4.99")},
    "under_payee_max_payment": {"payee_max_per_payment": Decimal("4.99")},
    "under_first_payments_limit": {"new_payee_payments": 1, "new_payee_max_per_payment": Decimal("4.99")},
    "payee_paid_before": {"approval_for_first": True},
    "under_daily_approval_limit": {"approval_above_day": Decimal("4.99")},
    "under_approval_limit": {"approval_above": Decimal("4.99")},
    "under_max_payment": {"max_per_payment": Decimal("4.99")},
}
HOLDING = [rule.name for rule in RULES if rule.holds]

_OPTIONAL = {part.field for part in PARTS}


def passing_but(*faults: str) -> Facts:
    """Make the facts of a payment that fails these rules, and no other."""
    changes = {name: value for fault in faults for name, value in FAULTS[fault].items()}
    more = MoreLimits(**{name: changes.pop(name) for name in _OPTIONAL & changes.keys()})
    return replace(PASSING, **changes, more=more)


def test_every_rule_is_found_by_its_name_which_the_log_has_room_for():
    others = ("approved_by_person", "policy_signer_available")
    assert (*(rule.name for rule in RULES), *others) == RULE_NAMES
    assert [find_rule(name) for name in RULE_NAMES] == [*RULES, PERSON_RULE, SIGNER_RULE]
    assert max(map(len, RULE_NAMES)) <= (LogEntry._meta.get_field("rule").max_length or 0)


def test_the_examples_payment_passes():
    assert ask_rules(EXAMPLE_FACTS).is_approved


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_refuses_its_examples(rule):
    assert rule.examples
    assert {ask_rules(replace(EXAMPLE_FACTS, **change)).rule.name for change in rule.examples} == {rule.name}


def test_the_rules_stand_in_the_order_of_the_contract():
    assert [rule.name for rule in RULES] == list(FAULTS)


def test_what_limits_vary_is_asked_last_for_a_preview_takes_it_that_what_came_before_had_passed():
    varies = [rule.varies for rule in RULES if rule is not SERVICE_RULE]  # which a preview asks again with all others

    assert varies == sorted(varies)


def test_a_payment_that_passes_every_rule_is_approved_by_the_last():
    decision = ask_rules(PASSING)

    assert (decision.is_approved, decision.rule.name) == (True, "under_max_payment")


@pytest.mark.parametrize("rule", FAULTS)
def test_a_rule_that_fails_blocks_or_holds_and_names_the_decision(rule):
    decision = ask_rules(passing_but(rule))

    assert (decision.is_approved, decision.rule.name) == (False, rule)
    assert (decision.is_held, decision.is_refused) == (rule in HOLDING, rule not in HOLDING)
    assert decision.explanation.message


@pytest.mark.parametrize(("first", "second"), list(combinations(FAULTS, 2)))
def test_of_two_rules_that_fail_the_first_decides_and_one_that_holds_loses_against_one_that_refuses(first, second):
    decision = ask_rules(passing_but(first, second))

    expected = second if first in HOLDING and second not in HOLDING else first
    assert (decision.rule.name, decision.is_held) == (expected, expected in HOLDING)


@pytest.mark.parametrize("rule", [rule for rule in FAULTS if rule not in HOLDING])
def test_what_fails_every_rule_that_holds_is_refused_by_the_one_that_refuses(rule):
    decision = ask_rules(passing_but(rule, *HOLDING))

    assert (decision.rule.name, decision.is_held, decision.is_refused) == (rule, False, True)


@pytest.mark.parametrize("rule", FAULTS)
def test_what_a_person_has_approved_is_asked_all_rules_but_those_that_hold(rule):
    facts = passing_but(rule, *HOLDING)
    decision = ask_rules(facts, rules_for_approved)

    assert (decision.is_approved, decision.is_held) == (rule in HOLDING, False)
    assert decision.rule.name == ("under_max_payment" if rule in HOLDING else rule)


@pytest.mark.parametrize(
    ("rule", "change", "spent"),
    [
        ("under_approval_limit", {"approval_above": Decimal(5)}, Decimal(100)),
        ("under_daily_approval_limit", {"approval_above_day": Decimal(8)}, Decimal(3)),
    ],
)
@pytest.mark.parametrize(("amount", "is_held"), [("4.999999", False), ("5", False), ("5.000001", True)])
def test_only_what_is_above_a_threshold_is_held(rule, change, spent, amount, is_held):
    wide = Decimal(1000)
    facts = replace(PASSING, amount=Decimal(amount), spent_today=spent, daily_limit=wide, more=MoreLimits(**change))

    decision = ask_rules(facts)

    assert (decision.is_held, decision.is_approved) == (is_held, not is_held)
    assert decision.rule.name == (rule if is_held else "under_max_payment")


@pytest.mark.parametrize(
    "change",
    [
        {"payee": None},
        {"payee": PayeeFacts(id="shop", is_approved=False, asset=Asset.USDC)},
        {"allowed_services": frozenset()},
        {"allowed_services": frozenset({"Shop", "shop "})},
    ],
)
def test_only_an_approved_and_allowed_service_passes(change):
    assert ask_rules(replace(PASSING, **change)).rule.name == "service_approved"


def test_a_service_that_the_policy_names_passes():
    assert ask_rules(replace(PASSING, allowed_services=frozenset({"shop", "other"}))).is_approved


@pytest.mark.parametrize("least", [None, Decimal("5.5")])
def test_a_payee_that_cannot_be_paid_so_is_told_with_the_least_that_could_be_and_time_does_not_help(least):
    payee = PayeeFacts("shop", is_approved=True, asset=Asset.USDC, obstacle=Obstacle("It is not served here.", least))
    decision = ask_rules(replace(PASSING, payee=payee, daily_limit=Decimal(5), spent_today=Decimal(1)))

    why = decision.explanation
    assert (decision.rule.name, why.message, why.waits_for) == ("service_payable", "It is not served here.", ())
    assert (why.figures.limit, why.figures.requested) == (least, None if least is None else Decimal(5))
    assert decision.objections["under_daily_limit"].waits_for


def test_the_asset_must_be_that_of_the_service_too():
    payee = PayeeFacts(id="shop", is_approved=True, asset=Asset.EURC)

    assert ask_rules(replace(PASSING, payee=payee)).rule.name == "asset_matches"


@pytest.mark.parametrize(
    ("amount", "minimum", "passes"),
    [("0.009999", "0.01", False), ("0.01", "0.01", True), ("0.010001", "0.01", True), ("0.000001", None, True)],
)
def test_only_what_is_below_the_minimum_is_too_little(amount, minimum, passes):
    facts = replace(PASSING, amount=Decimal(amount), minimum=minimum and Decimal(minimum))

    assert ask_rules(facts).rule.name == ("under_max_payment" if passes else "above_minimum")


LIMITS = {
    "balance_covers_payment": lambda limit: {"balance": limit},
    "under_weekly_limit": lambda limit: {"weekly_limit": limit + 3, "spent_this_week": Decimal(3)},
    "under_daily_limit": lambda limit: {"daily_limit": limit + 3, "spent_today": Decimal(3)},
    "under_max_payment": lambda limit: {"max_per_payment": limit},
}


@pytest.mark.parametrize("rule", LIMITS)
@pytest.mark.parametrize(("amount", "passes"), [("4.999999", True), ("5", True), ("5.000001", False)])
def test_a_limit_is_crossed_only_above_it(rule, amount, passes):
    decision = ask_rules(replace(PASSING, amount=Decimal(amount), **LIMITS[rule](Decimal(5))))

    assert decision.is_approved is passes
    assert passes or decision.rule.name == rule


@pytest.mark.parametrize(
    ("field", "rule"),
    [
        ("balance", "balance_covers_payment"),
        ("weekly_limit", "under_weekly_limit"),
        ("daily_limit", "under_daily_limit"),
        ("max_per_payment", "under_max_payment"),
    ],
)
def test_zero_lets_nothing_pass(field, rule):
    nothing: dict[str, Any] = {field: Decimal(0)}
    facts = replace(PASSING, amount=Decimal("0.000001"), **nothing)

    assert ask_rules(facts).rule.name == rule


@pytest.mark.parametrize(
    ("change", "rule", "amounts"),
    [
        ({"balance": Decimal(4)}, "balance_covers_payment", (None, None, 5, 4)),
        ({"spent_this_week": Decimal(97)}, "under_weekly_limit", (100, 97, 5, 3)),
        ({"spent_today": Decimal(48)}, "under_daily_limit", (50, 48, 5, 2)),
        ({"max_per_payment": Decimal(4)}, "under_max_payment", (4, None, 5, 4)),
        # After limits were lowered below what is spent already, nothing remains; not less than nothing.
        ({"spent_this_week": Decimal(500)}, "under_weekly_limit", (100, 500, 5, 0)),
        ({"spent_today": Decimal(500)}, "under_daily_limit", (50, 500, 5, 0)),
    ],
)
def test_a_refusal_tells_the_amounts_that_were_compared(change, rule, amounts):
    decision = ask_rules(replace(PASSING, **change))

    compared = decision.explanation.figures
    assert decision.rule.name == rule
    assert (compared.limit, compared.spent, compared.requested, compared.remaining) == amounts
    assert decision.rule.figures(replace(PASSING, **change)) == compared


def test_amounts_of_any_size_are_added_without_rounding():
    facts = replace(
        PASSING,
        amount=Decimal("99999999999999999999.999999998"),
        spent_today=Decimal("0.000000001"),
        balance=Decimal(10**21),
        max_per_payment=Decimal(10**20),
        weekly_limit=Decimal(10**21),
        daily_limit=Decimal("99999999999999999999.999999999"),
    )

    assert ask_rules(facts).is_approved
    assert not ask_rules(replace(facts, spent_today=Decimal("0.000000002"))).is_approved


amounts = st.decimals(0, 30, places=2)


@given(
    amount=st.decimals("0.01", 30, places=2),
    balance=amounts, max_per_payment=amounts, daily_limit=amounts, weekly_limit=amounts,
    spent_today=amounts, spent_this_week=amounts,
)  # fmt: skip
def test_what_is_approved_crosses_no_limit_and_what_is_refused_crosses_one(amount, **found):
    facts = replace(PASSING, amount=amount, **found)

    within = (
        amount <= facts.balance
        and amount <= facts.max_per_payment
        and facts.spent_today + amount <= facts.daily_limit
        and facts.spent_this_week + amount <= facts.weekly_limit
    )
    assert ask_rules(facts).is_approved is within
