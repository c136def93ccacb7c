"""The optional limits of a policy as values: written and read, and compared with those of another policy."""

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from policy.asking import ask_rules
from policy.facts import EXAMPLE_FACTS, Counted, PayeeFacts
from policy.hours import parse_hours
from policy.limit_kinds import (
    AMOUNT,
    COUNT,
    FLAG,
    HOURS,
    HOURS_TO_ACT,
    HOURS_WAITED,
    PARENT,
    PAYEES,
    SINCE,
    TAGS,
    UNTIL,
    WAITED,
)
from policy.limits import Limits, lets_more_pass
from policy.more_limits import NO_MORE, PART_OF_FIELD, PARTS, MoreLimits, given, read_more, write_more
from policy.payee_limits import PayeeLimits, lets_payees_more, parse_payee_limits
from tests.support.limit_ladders import LADDERS, RUNGS, limited

BEGIN = datetime(2026, 5, 11, tzinfo=UTC)  # a Monday
PAYEE = PayeeFacts(id="shop", is_approved=True, asset=Asset.USDC)

few_amounts = st.sampled_from([Decimal(0), Decimal("0.000001"), Decimal(2), Decimal("2.5"), Decimal(7)])
moments = st.integers(0, 14 * 24 * 60).map(lambda minutes: BEGIN + timedelta(minutes=minutes))
groups = st.sampled_from(["daily 09:00-17:00", "mon-fri 08:00-18:00", "mon-thu 09:00-17:00", "fri-mon 22:00-06:00"])
zones = st.sampled_from(["UTC", "UTC", "UTC", "Europe/Berlin"])
of_payee = st.dictionaries(
    st.sampled_from(["payment", "day", "week"]), st.none() | few_amounts, min_size=1, max_size=3
).map(lambda named: ", ".join(f"{name} {'none' if limit is None else limit}" for name, limit in named.items()))
payee_limits = st.dictionaries(st.sampled_from(["shop", "Other:1", "a.b"]), of_payee, min_size=1, max_size=3).map(
    lambda named: parse_payee_limits("\n".join(f"{payee}: {text}" for payee, text in named.items()), Asset.USDC)
)
EVERY_SET_OF_TAGS = [(), ("compute",), ("data",), ("x-1",), ("compute", "data"), ("data", "x-1")]
some_tags = st.sets(st.sampled_from(["compute", "data", "x-1"])).map(lambda tags: tuple(sorted(tags)))
VALUES = {
    AMOUNT: few_amounts,
    COUNT: st.integers(0, 5),
    WAITED: st.integers(1, 5),
    HOURS_WAITED: st.integers(1, 5),
    FLAG: st.just(True),
    HOURS_TO_ACT: st.integers(1, 5),
    HOURS: st.builds(lambda some, zone: parse_hours(f"{', '.join(some)} {zone}"), st.lists(groups, min_size=1), zones),
    SINCE: moments,
    UNTIL: moments,
    PAYEES: payee_limits,
    TAGS: some_tags.filter(bool),
    PARENT: st.sampled_from(["team", "Team:1"]),
}
any_limits = st.builds(MoreLimits, **{part.field: st.none() | VALUES[part.kind] for part in PARTS})


def of(more):
    return Limits(Decimal(10), Decimal(50), Decimal(100), None, more)


# --- Written and read -------------------------------------------------------------------------------------------------
@for_all(any_limits)
def test_what_is_written_reads_as_the_same_limits(more):
    assert read_more(write_more(more)) == more
    for part, value in given(more):
        assert part.kind.read(part.kind.write(value), Asset.USDC) == value
        assert getattr(more, part.field) == value


def test_without_optional_limits_nothing_is_written_and_nothing_is_read():
    assert write_more(NO_MORE) == write_more(MoreLimits()) == "{}"
    assert read_more("{}") is read_more(None) is NO_MORE
    assert list(given(MoreLimits())) == []


@pytest.mark.parametrize("text", ['{"yearlyLimit":"5.00"}', '{"hourlyLimit":"5.00","yearlyLimit":"5.00"}'])
def test_a_limit_that_only_a_later_release_knows_is_an_error_and_not_left_out(text):
    with pytest.raises(OperationRefused, match="This release does not know the limit yearlyLimit"):
        read_more(text)


def test_every_optional_limit_is_a_part_with_names_of_its_own():
    assert [part.field for part in PARTS] == [one.name for one in fields(MoreLimits)] == [*LADDERS, "parent"]
    for names in ("field", "name", "option", "label", "help"):
        assert len({getattr(part, names) for part in PARTS}) == len(PARTS)


# --- Compared ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("field", "wider", "narrower"), RUNGS)
def test_a_step_up_the_ladder_lets_more_pass_and_a_step_down_does_not(field, wider, narrower):
    more, less = of(limited(field, wider)), of(limited(field, narrower))

    assert lets_more_pass(less, more)
    assert not lets_more_pass(more, less)
    assert not lets_more_pass(more, of(limited(field, wider)))


@pytest.mark.parametrize("both", [{"new_payee_payments": 3, "new_payee_max_per_payment": Decimal(1)}])
def test_to_limit_first_payments_no_more_lets_more_pass(both):
    assert lets_more_pass(of(MoreLimits(**both)), of(NO_MORE))
    assert not lets_more_pass(of(NO_MORE), of(MoreLimits(**both)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mon-fri 09:00-17:00 UTC", "mon-fri 09:00-17:00 Europe/Berlin"),
        ("mon-fri 09:00-17:00 UTC", "tue 17:00-17:01 UTC"),
        ("daily 22:00-06:00 UTC", "sun 23:00-07:00 UTC"),
    ],
)
def test_other_hours_let_more_pass_though_they_be_fewer(old, new):
    assert lets_more_pass(of(limited("allowed_hours", old)), of(limited("allowed_hours", new)))


@pytest.mark.parametrize(
    ("old", "new", "lets_more"),
    [
        ({"payee_limits": "shop: day 5"}, {"payee_limits": "shop: day 5"}, False),
        # The exception had kept one payee below the limit of all.
        ({"payee_daily_limit": "9", "payee_limits": "shop: day 5"}, {"payee_daily_limit": "9"}, True),
        ({"payee_daily_limit": "9"}, {"payee_daily_limit": "9", "payee_limits": "shop: day 5"}, False),
        # What an exception does not name follows the limit of all.
        ({"payee_daily_limit": "9", "payee_limits": "shop: week 5"}, {"payee_limits": "shop: week 5"}, True),
        ({"payee_limits": "shop: week 5"}, {"payee_daily_limit": "9", "payee_limits": "shop: week 5"}, False),
        # A lower limit of all, with an exception that keeps one payee as high, and one that lets it have more.
        ({"payee_daily_limit": "9"}, {"payee_daily_limit": "1", "payee_limits": "shop: day 9"}, False),
        ({"payee_daily_limit": "9"}, {"payee_daily_limit": "1", "payee_limits": "shop: day 9.01"}, True),
        ({"payee_limits": "shop: day none"}, {"payee_limits": "other: day 5"}, False),
        ({"payee_limits": "shop: day 5"}, {"payee_limits": "other: day 5"}, True),
    ],
)
def test_exceptions_are_compared_payee_by_payee_with_the_limits_of_all(old, new, lets_more):
    old, new = (
        of(MoreLimits(**{name: PART_OF_FIELD[name].kind.read(text, Asset.USDC) for name, text in texts.items()}))
        for texts in (old, new)
    )

    assert lets_more_pass(old, new) is lets_more


defaults = st.builds(PayeeLimits, *[st.none() | few_amounts] * 3)


@for_all(defaults, st.none() | payee_limits, defaults, st.none() | payee_limits)
def test_payees_may_be_paid_more_if_and_only_if_some_payee_may(old_default, old, new_default, new):
    def most(payee, name, default, exceptions):
        named = exceptions[payee].named if exceptions and payee in exceptions else {}
        limit = named[name] if name in named else getattr(default, name)
        return Decimal("Infinity") if limit is None else limit

    asked = [(payee, name) for payee in ("shop", "Other:1", "a.b", "another") for name in ("payment", "day", "week")]

    assert lets_payees_more(old_default, old, new_default, new) is any(
        most(*one, new_default, new) > most(*one, old_default, old) for one in asked
    )


# Of few limits, so that some payments pass.
some_limits = st.sets(st.sampled_from(list(LADDERS)), max_size=3).flatmap(
    lambda names: st.builds(MoreLimits, **{name: VALUES[PART_OF_FIELD[name].kind] for name in names})
)
spent = st.sampled_from([Decimal(0), Decimal("1.5"), Decimal(2), Decimal("6.5")])
made = st.integers(0, 5)
ages, amounts = (
    st.integers(0, 400),
    st.sampled_from([Decimal("0.5"), Decimal(1), Decimal(2), Decimal("2.5"), Decimal(7)]),
)
counted = st.builds(Counted, spent, spent, spent, made, made, spent, spent, made)


@st.composite
def payments(draw):
    """Draw a payment to a payee that was approved some minutes before."""
    at = draw(moments)
    payee = replace(
        PAYEE,
        id=draw(st.sampled_from(["shop", "a.b"])),
        approved_at=at - timedelta(minutes=draw(ages)),
        tags=draw(some_tags),
    )
    return replace(EXAMPLE_FACTS, amount=draw(amounts), at=at, counted=draw(counted), payee=payee)


some_services = st.none() | st.sets(st.sampled_from(["shop", "a.b", "another"])).map(sorted)
some_allowed = st.none() | some_tags.filter(bool)


@for_all(some_services, some_allowed, some_services, some_allowed)
def test_services_and_tags_let_more_pass_if_and_only_if_some_payee_with_some_tags_may_be_paid(
    old_services, old_tags, new_services, new_tags
):
    old, new = (
        replace(of(MoreLimits(allowed_tags=tags)), allowed_services=services)
        for services, tags in ((old_services, old_tags), (new_services, new_tags))
    )
    payees = [
        replace(PAYEE, id=one, tags=tags) for one in ("shop", "a.b", "another", "any") for tags in EVERY_SET_OF_TAGS
    ]

    def may_pay(limits, payee):
        services = None if limits.allowed_services is None else frozenset(limits.allowed_services)
        return ask_rules(replace(EXAMPLE_FACTS, payee=payee, allowed_services=services, more=limits.more)).is_approved

    assert lets_more_pass(old, new) is any(may_pay(new, one) and not may_pay(old, one) for one in payees)


@settings(max_examples=400)
@for_all(some_limits, any_limits, st.sets(st.sampled_from(list(LADDERS)), max_size=2), st.data())
def test_what_lets_no_more_pass_approves_nothing_that_was_refused(old, other, changed, data):
    new = replace(old, **{name: getattr(other, name) for name in changed})

    if not lets_more_pass(of(old), of(new)):
        for facts in data.draw(st.lists(payments(), min_size=4, max_size=4)):
            now = ask_rules(replace(facts, more=new)).is_approved
            assert ask_rules(replace(facts, more=old)).is_approved or not now
