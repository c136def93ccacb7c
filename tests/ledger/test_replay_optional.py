"""The replay of a history by optional limits: each at and above, and all of them against brute force."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.past import History, Move, Past, Payee, Repair
from ledger.replay import replay
from policy.hours import parse_hours
from policy.limits import Limits
from policy.more_limits import MoreLimits
from policy.payee_limits import PayeeException
from tests.payments.deciding.test_optional_limits import AMOUNTS, STEPS, TWO, any_limits
from tests.support.optional_limits import DAY, HOUR, WEEK, Paid, Remembered

START = datetime(2026, 5, 14, 18, 42, 11, 123_000, tzinfo=UTC)
MS = timedelta(milliseconds=1)
ONE, MUCH = Decimal(1), Decimal(10**9)


def limits_of(**more):
    return Limits(MUCH, MUCH, MUCH, None, MoreLimits(**more))


def past(number, at, amount="1", *, service="shop", rule="", repairs=0, is_judged=True):
    """Make a decision: an approved one, or one that a rule refused."""
    return Past(
        at, f"log_{number:03}", service, Decimal(amount), "USDC", rule or "under_max_payment", is_approved=not rule,
        is_off_list=False, payment_id=None if rule else f"pay_{number}", repairs=repairs, is_judged=is_judged,
    )  # fmt: skip


def payments(*ats, **options):
    return [past(number, at, **options) for number, at in enumerate(ats)]


def told(history, **more):
    """Tell for each decision the rule that refuses it; None: none does."""
    return [None if one.is_approved else one.rule for one in replay(history, limits_of(**more))]


def history_of(decisions, **options):
    return History("USDC", MUCH, decisions, **options)


@pytest.mark.parametrize("rule", TWO)
def test_a_window_lets_pass_what_reaches_its_limit_until_the_first_payment_has_left_it(rule):
    more, window = TWO[rule]
    third_at = START + window
    for at, refusing in ((third_at - MS, rule), (third_at, None)):
        decisions = payments(START, START + timedelta(minutes=10), at)

        assert told(history_of(decisions), **more) == [None, None, refusing]


@pytest.mark.parametrize("rule", TWO)
def test_what_was_given_back_leaves_a_window_as_of_when_it_was_spent(rule):
    more, _ = TWO[rule]
    minutes = [START + number * timedelta(minutes=1) for number in range(6)]
    given_back = Move(minutes[2], ONE, minutes[0], "pay_0", "shop")
    decisions = payments(minutes[0], minutes[1], minutes[3], minutes[4])

    assert told(history_of(decisions, moves=[given_back]), **more) == [None, None, None, rule]
    assert told(history_of(decisions, moves=[given_back._replace(at=minutes[5])]), **more) == [None, None, rule, rule]


@pytest.mark.parametrize("rule", TWO)
def test_what_is_before_the_judged_decisions_counts_as_it_was_also_if_it_stands_for_several(rule):
    more, _ = TWO[rule]
    (before,) = payments(START, is_judged=False)
    asked = past(1, START + MS)

    assert told(history_of([before, asked]), **more) == [None]
    assert told(history_of([before._replace(amount=Decimal(2), payments=2), asked]), **more) == [rule]


@pytest.mark.parametrize("rule", TWO)
def test_what_a_limit_refused_that_is_no_more_is_let_pass(rule):
    (asked,) = payments(START, rule=rule)

    assert told(history_of([asked])) == [None]


@pytest.mark.parametrize("rule", ["under_hourly_limit", "under_daily_count", "under_payee_weekly_limit"])
def test_what_was_in_the_future_when_the_clock_was_repaired_counts_until_its_end(rule):
    more, window = TWO[rule]
    ahead, repaired = START + WEEK, START + HOUR
    before = [past(0, ahead), past(1, ahead)]
    after = [past(number, repaired + at, repairs=1) for number, at in enumerate((MS, DAY), 2)]
    at_its_end = [past(4, ahead + window - MS, repairs=1), past(5, ahead + window, repairs=1)]
    repairs = [Repair(1, repaired, ahead)]

    found = told(history_of([*before, *after, *at_its_end], repairs=repairs), **more)

    assert found == [None, None, rule, rule, rule, None]


def test_the_total_limit_counts_what_was_spent_ever_and_not_what_was_given_back():
    decisions = payments(START, START + 60 * DAY, START + 61 * DAY)
    back = Move(START + DAY, ONE, START, "pay_0", "shop")

    def found(limit, **options):
        return told(history_of(decisions, spent=Decimal(7), **options), total_limit=Decimal(limit))

    assert found("10") == [None, None, None]
    assert found("9.999999") == [None, None, "under_total_limit"]
    assert found("9", moves=[back]) == [None, None, None]
    assert found("8.999999", moves=[back]) == [None, None, "under_total_limit"]


def test_what_the_limits_refuse_is_not_given_back_either():
    decisions = payments(START, START + MS)
    back = Move(START, ONE, START, "pay_0", "shop")

    found = told(history_of(decisions, moves=[back]), allowed_from=START + MS, total_limit=ONE, payments_per_hour=1)

    assert found == ["within_dates", None]


@pytest.mark.parametrize(("amount", "is_let_pass"), [("5", True), ("5.000001", False)])
@pytest.mark.parametrize(
    ("rule", "more"),
    [
        ("under_payee_max_payment", {"payee_max_per_payment": Decimal(5)}),
        ("under_first_payments_limit", {"new_payee_payments": 1, "new_payee_max_per_payment": Decimal(5)}),
    ],
)
def test_a_limit_of_one_payment_lets_pass_what_reaches_it(rule, more, amount, is_let_pass):
    assert told(history_of(payments(START, amount=amount)), **more) == [None if is_let_pass else rule]


def test_first_payments_to_a_payee_are_those_that_were_not_given_back_and_those_of_before_count():
    more = {"new_payee_payments": 2, "new_payee_max_per_payment": ONE}
    rule = "under_first_payments_limit"
    decisions = [past(0, START), *(past(number, START + number * MS, "2") for number in (1, 2, 3))]
    other = past(4, START + 4 * MS, "2", service="other")
    back = Move(START + 2 * MS, ONE, START, "pay_0", "shop")

    assert told(history_of([*decisions, other]), **more) == [None, rule, rule, rule, rule]
    assert told(history_of([*decisions, other], paid={"shop": 1}), **more) == [None, None, None, None, rule]
    assert told(history_of(decisions, paid={"shop": 1}, moves=[back]), **more) == [None, None, None, None]
    assert told(history_of(decisions[:1] + decisions[2:], paid={"shop": 1}, moves=[back]), **more) == [None, rule, rule]


def test_an_exception_has_the_limits_that_it_names_and_the_others_of_all_payees():
    more = {
        "payee_daily_limit": Decimal(2), "payee_limits": {"trusted": PayeeException({"day": Decimal(3)})},
    }  # fmt: skip
    ats = [START + number * MS for number in range(4)]

    rule = "under_payee_daily_limit"
    assert told(history_of(payments(*ats, service="trusted")), **more) == [None, None, None, rule]
    assert told(history_of(payments(*ats, service="other")), **more) == [None, None, rule, rule]


def test_decisions_are_judged_by_the_hours_and_the_dates_of_when_they_were_made():
    hours = parse_hours(f"daily {START:%H}:00-{START + HOUR:%H}:00 UTC")
    opens = START.replace(minute=0, second=0, microsecond=0)
    ats = (opens - MS, opens, opens + HOUR - MS, opens + HOUR)

    assert told(history_of(payments(*ats)), allowed_hours=hours) == ["within_hours", None, None, "within_hours"]
    assert told(history_of(payments(*ats)), allowed_from=opens, allowed_until=opens + HOUR) == [
        "within_dates", None, None, "within_dates",
    ]  # fmt: skip


def test_a_new_payee_is_waited_for_after_its_approval_and_one_that_was_approved_anew_later_is_not():
    payees = {"shop": Payee("USDC", None, START)}
    decisions = payments(START - MS, START, START + DAY - MS, START + DAY)

    found = told(history_of(decisions, payees=payees), new_payee_wait_hours=24)

    assert found == [None, "new_payee_waited", "new_payee_waited", None]


@st.composite
def histories(draw):
    """Make decisions of two payees, with what was given back of them, and payments of long before."""
    at, decisions, moves = START, [], []
    first = draw(st.integers(0, 5))
    for number in range(draw(st.integers(1, 20))):
        at += draw(STEPS)
        rule = draw(st.sampled_from(["", "", "", "agent_active", "under_hourly_count", "within_hours"]))
        one = past(
            number, at, draw(AMOUNTS), rule=rule, service=draw(st.sampled_from("ab")), is_judged=number >= first
        )  # fmt: skip
        decisions.append(one)
        if not rule and draw(st.integers(0, 3)) == 0:
            moves.append(Move(at + draw(STEPS) + MS, one.amount, at, one.payment_id, one.service))
    earlier = draw(st.lists(st.tuples(st.sampled_from("ab"), AMOUNTS), max_size=4))
    spent = sum((amount for _, amount in earlier), Decimal(0))
    paid = {payee: [one for one, _ in earlier].count(payee) for payee in "ab"}
    return history_of(decisions, moves=sorted(moves), spent=spent, paid=paid), earlier


def remember(history, earlier, more):
    """Judge a history by brute force."""
    remembered = Remembered([Paid(START - timedelta(days=900), payee, amount) for payee, amount in earlier])
    made: dict[str | None, Paid] = {}
    for one in history.decisions:
        for move in history.moves:
            if move.at <= one.at and move.payment_id in made:
                made[move.payment_id].has_failed = True
        rule = None if one.is_approved else one.rule
        if one.is_judged and rule != "agent_active":
            rule = remembered.refusing_rule(more, one.service, one.amount, one.at)
        if one.is_judged:
            yield rule
        if rule is None:
            made[one.payment_id or one.id] = Paid(one.at, one.service, one.amount)
            remembered.paid.append(made[one.payment_id or one.id])


@given(history=histories(), more=any_limits(["a", "b"]))
def test_by_any_optional_limits_they_come_out_as_brute_force_says(history, more):
    history, earlier = history

    found = replay(history, Limits(MUCH, MUCH, MUCH, None, more))

    assert [None if one.is_approved else one.rule for one in found] == list(remember(history, earlier, more))
