"""What a refused payment waits for: every limit that objects to it has to have room."""

from dataclasses import replace
from decimal import Decimal

import pytest

from foundation.kernel.errors import BudgetExceeded
from policy.asking import ask_rules
from policy.objections import DAY, WEEK, WindowLimit
from policy.rule import Rule, Wait, Words
from policy.rules import RULES
from tests.policy.test_rules import PASSING

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

    decision = ask_rules(replace(PASSING, **change), lambda _more: rules)

    assert (decision.rule.name, decision.explanation.waits_for) == (rule, waits_for)
