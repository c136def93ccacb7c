"""The pure rules: facts in, a decision out."""

from dataclasses import replace
from decimal import Decimal
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chains.port import Obstacle
from foundation.kernel.assets import Asset
from foundation.kernel.errors import BudgetExceeded
from ledger.models import LogEntry
from policy.facts import EXAMPLE_FACTS, Facts, PayeeFacts
from policy.objections import DAY, WEEK, WindowLimit
from policy.rule import Rule, Wait, Words
from policy.rules import RULE_NAMES, RULES, SERVICE_RULE, SIGNER_RULE, ask_rules, find_rule

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
    payee=PayeeFacts(id="shop", is_approved=True, asset=Asset.USDC),
    minimum=Decimal("0.000001"),
)
# One way to fail each rule alone, in the order of the contract.
FAULTS: dict[str, dict[str, Any]] = {
    "agent_active": {"agent_is_active": False},
    "service_approved": {"allowed_services": frozenset({"other"})},
    "service_payable": {"payee": PayeeFacts("shop", is_approved=True, asset=Asset.USDC, obstacle=Obstacle("No."))},
    "asset_matches": {"agent_asset": Asset.EURC},
    "above_minimum": {"minimum": Decimal("5.000001")},
    "balance_covers_payment": {"balance": Decimal("4.99")},
    "under_weekly_limit": {"weekly_limit": Decimal("4.99")},
    "under_daily_limit": {"daily_limit": Decimal("4.99")},
    "under_max_payment": {"max_per_payment": Decimal("4.99")},
}


def test_every_rule_is_found_by_its_name_which_the_log_has_room_for():
    assert (*(rule.name for rule in RULES), "policy_signer_available") == RULE_NAMES
    assert [find_rule(name) for name in RULE_NAMES] == [*RULES, SIGNER_RULE]
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
def test_a_rule_that_fails_blocks_and_names_the_decision(rule):
    decision = ask_rules(replace(PASSING, **FAULTS[rule]))

    assert (decision.is_approved, decision.rule.name) == (False, rule)
    assert decision.explanation.message


@pytest.mark.parametrize(("first", "second"), list(combinations(FAULTS, 2)))
def test_of_two_rules_that_fail_the_first_decides(first, second):
    assert ask_rules(replace(PASSING, **FAULTS[first], **FAULTS[second])).rule.name == first


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


# 5 more are asked for: of 100 a week 95 may be spent, of 50 a day 45.
WEEKS_TURN, DAYS_TURN = Wait(WEEK, Decimal(95)), Wait(DAY, Decimal(45))


@pytest.mark.parametrize(
    ("change", "waits_for"),
    [
        ({"spent_this_week": Decimal(97)}, (WEEKS_TURN,)),
        ({"spent_today": Decimal(48)}, (DAYS_TURN,)),
        ({"spent_today": Decimal(48), "spent_this_week": Decimal(97)}, (WEEKS_TURN, DAYS_TURN)),
        # The payment is just the limit: nothing else may be spent.
        ({"spent_today": Decimal(48), "daily_limit": Decimal(5)}, (Wait(DAY, Decimal(0)),)),
        ({"balance": Decimal(4)}, ()),
        ({"max_per_payment": Decimal(4)}, ()),
        ({"agent_is_active": False}, ()),
        # The payment alone is more than a limit: no waiting helps, whichever rule blocks it first.
        ({"daily_limit": Decimal(4)}, ()),
        ({"weekly_limit": Decimal(4)}, ()),
        ({"spent_today": Decimal(48), "max_per_payment": Decimal(4)}, ()),
        ({"spent_this_week": Decimal(97), "daily_limit": Decimal(4)}, ()),
    ],
)
def test_a_refusal_tells_what_it_waits_for(change, waits_for):
    assert ask_rules(replace(PASSING, **change)).explanation.waits_for == waits_for


ANY_WORDS = Words("passed", "refused", "short")


SECOND_DAILY = WindowLimit("second daily", DAY, lambda _: Decimal(20), lambda facts: facts.spent_today, ("one", "two"))
SECOND_DAILY_LIMIT = Rule("under_second_daily_limit", BudgetExceeded, SECOND_DAILY.check, ANY_WORDS, varies=True)
SECOND_DAYS_TURN = Wait(DAY, Decimal(15))


def test_no_rule_can_be_made_without_its_words_or_without_saying_whether_limits_change_it():
    for left_out in ({"varies": True}, {"words": ANY_WORDS}):
        with pytest.raises(TypeError, match="required positional argument"):
            Rule("another", BudgetExceeded, SECOND_DAILY.check, **left_out)


@pytest.mark.parametrize(
    ("change", "rule", "waits_for"),
    [
        ({}, "under_max_payment", ()),
        ({"spent_today": Decimal(18)}, "under_second_daily_limit", (SECOND_DAYS_TURN,)),
        # Whichever objects first, the payment waits for all that object.
        ({"spent_today": Decimal(48)}, "under_daily_limit", (DAYS_TURN, SECOND_DAYS_TURN)),
        (
            {"spent_today": Decimal(18), "spent_this_week": Decimal(97)},
            "under_weekly_limit",
            (WEEKS_TURN, SECOND_DAYS_TURN),
        ),
        ({"spent_today": Decimal(18), "max_per_payment": Decimal(4)}, "under_second_daily_limit", ()),
        ({"amount": Decimal(21), "max_per_payment": Decimal(30)}, "under_second_daily_limit", ()),
        ({"amount": Decimal(21), "max_per_payment": Decimal(30), "spent_today": Decimal(48)}, "under_daily_limit", ()),
    ],
)
def test_a_second_daily_limit_waits_for_its_own_amount(change, rule, waits_for):
    rules = (*RULES[:-1], SECOND_DAILY_LIMIT, RULES[-1])

    decision = ask_rules(replace(PASSING, **change), rules)

    assert (decision.rule.name, decision.explanation.waits_for) == (rule, waits_for)


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
