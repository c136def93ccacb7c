"""How the console reads amounts: no comma, in no form."""

from decimal import Decimal

import pytest
from django.contrib.auth.models import Permission, User
from django.forms import Form

from foundation.console.amounts import AmountField, read_amount
from foundation.kernel.assets import Asset
from foundation.kernel.money import AmountError
from policy.models import PolicyRevision
from tests.foundation.console.conftest import errors_in
from tests.support.factories import new_name
from tests.support.local_ids import LOCALNET

NO_COMMA = "A comma can be read in two ways. Write 2.50, or 1250."


@pytest.mark.parametrize(
    ("text", "amount"),
    [("2.50", "2.5"), ("1250", "1250"), ("0.000001", "0.000001"), ("5.000", "5"), ("9" * 20, "9" * 20)],
)
def test_digits_and_a_point_are_an_amount(text, amount):
    assert read_amount(text, Asset.USDC) == Decimal(amount)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2,50", NO_COMMA),
        ("1,250", NO_COMMA),
        ("5.000,00", NO_COMMA),
        ("1,250.00", NO_COMMA),
        ("20 000", "Write it without blanks: 20000."),
        ("20\N{NO-BREAK SPACE}000", "Write it without blanks: 20000."),
        ("-5", "Write it without a sign: 2.50."),
        ("\N{MINUS SIGN}5", "Write it without a sign: 2.50."),
        ("5 USDC", "Write it without blanks: 20000."),
        ("$5", "Write digits, and a point before decimals: 2.50."),
        ("1'250", "Write digits, and a point before decimals: 2.50."),
        ("1e3", "Write digits, and a point before decimals: 2.50."),
        ("\N{ARABIC-INDIC DIGIT FIVE}", "Write digits, and a point before decimals: 2.50."),
        ("5.000.000", "Write one point, before the decimals, and none between thousands: 1250.00."),
        (".5", "Write a digit before the point and one after it: 0.50."),
        ("5.", "Write a digit before the point and one after it: 0.50."),
        ("9" * 21, "That is too much: write at most 20 digits."),
        ("0.0000001", "USDC has 6 decimals: write at most 6 digits after the point."),
        ("0.00", "Write more than 0."),
    ],
)
def test_what_is_no_amount_is_told_in_peoples_words(text, words):
    with pytest.raises(AmountError) as refused:
        read_amount(text, Asset.USDC)

    assert str(refused.value) == words


@pytest.mark.parametrize(("text", "amount"), [("-0.50", "-0.5"), ("+3", "3"), ("3", "3")])
def test_an_amount_that_may_have_a_sign_is_read_with_it(text, amount):
    assert read_amount(text, Asset.USDC, is_signed=True) == Decimal(amount)


@pytest.mark.parametrize("text", ["--1", "-0", "+0.00", "-1,5", "1-"])
def test_a_sign_excuses_nothing_else(text):
    with pytest.raises(AmountError):
        read_amount(text, Asset.USDC, is_signed=True)


def test_blanks_around_an_amount_are_no_part_of_it():
    class OneAmount(Form):
        amount = AmountField(required=False)

    asked = [OneAmount({"amount": text}) for text in (" 2.50 ", "  ")]

    assert [(one.is_valid(), one.cleaned_data["amount"]) for one in asked] == [(True, Decimal("2.5")), (True, None)]


@pytest.fixture
def treasurer(make_person):
    """Somebody who makes agents, changes limits and moves balances."""
    person = make_person()
    wanted = ("view_agent", "add_agent", "change_agent", "add_balancemovement")
    user = User.objects.get(username=person.name)
    user.user_permissions.add(*Permission.objects.filter(codename__in=wanted))
    return person


def limits(**changes):
    return {"max_per_payment": "1", "daily_limit": "2", "weekly_limit": "3", "allows": "all", **changes}


@pytest.mark.parametrize("text", ["2,50", "1,250"])
@pytest.mark.parametrize("field", ["max_per_payment", "daily_limit", "weekly_limit"])
def test_a_comma_in_a_limit_is_refused(treasurer, agent, field, text):
    new = treasurer.post("policy_agent_add", id=new_name("agent"), asset="USDC", reason="R", **limits(**{field: text}))
    changed = treasurer.post("policy_agent_policy", agent.id, **limits(**{field: text}), seen="1", reason="R")

    assert (errors_in(new), errors_in(changed)) == ([NO_COMMA], [NO_COMMA])
    assert PolicyRevision.objects.filter(agent=agent).count() == 1


@pytest.mark.parametrize(
    ("action", "more"), [("adjust", {}), ("withdraw", {"recipient": "0x5432a4f2C62B4DBD9c6C1eDa5cd3a1bFD3DBD9D2"})]
)
def test_a_comma_in_a_movement_is_refused(treasurer, agent, action, more):
    page = treasurer.try_to_act("policy_agent", action, agent.id, amount="2,50", chain=LOCALNET, **more)

    assert NO_COMMA in errors_in(page)


def test_a_comma_in_what_the_codes_ask_for_is_refused(treasurer, agent):
    page = treasurer.get("policy_agent_fund", agent.id, amount="2,50")

    assert errors_in(page) == [NO_COMMA]
    assert "uint256" not in page.content.decode()
