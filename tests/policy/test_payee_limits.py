"""Limits of single payees as texts."""

from decimal import Decimal

import pytest

from foundation.kernel.assets import Asset
from policy.more_limits import MoreLimits
from policy.payee_limits import MOST_EXCEPTIONS, PayeeLimits, parse_payee_limits, write_payee_limits


def read(text):
    return parse_payee_limits(text, Asset.USDC)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("shop: payment 5", "shop: payment 5.00"),
        ("shop: payment 5, day 20, week none", "shop: payment 5.00, day 20.00, week none"),
        ("b: day 0.000001\na: week 3", "a: week 3.00; b: day 0.000001"),
        ("\n b: day 1 ;; a: week 3;\n", "a: week 3.00; b: day 1.00"),
        # A payee's id may have a colon, and may look like another one.
        ("urn:x:shop: day 1; Shop: day 2; shop: day 3", "Shop: day 2.00; shop: day 3.00; urn:x:shop: day 1.00"),
        ("https://shop.example/pay: day 1", "https://shop.example/pay: day 1.00"),
    ],
)
def test_exceptions_are_written_in_the_order_of_their_payees_and_read_the_same(text, written):
    assert write_payee_limits(read(text)) == written
    assert read(written) == read(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Must be 1 to 500 payees."),
        (" ; \n", "Must be 1 to 500 payees."),
        ("shop", "Must be exceptions such as"),
        ("shop: ", "Must be exceptions such as"),
        ("shop: 5", "Must be exceptions such as"),
        ("shop day 5", "Must be exceptions such as"),
        (": day 5", "Must be exceptions such as"),
        ("-shop: day 5", "Must be exceptions such as"),
        ("a shop: day 5", "Must be exceptions such as"),
        ("söp: day 5", "Must be exceptions such as"),
        (f"{'s' * 129}: day 5", "Must be exceptions such as"),
        ("shop: month 5", "Must be exceptions such as"),
        ("shop: day 5, day 6", "Must be exceptions such as"),
        ("shop: day 5,", "Must be exceptions such as"),
        ("shop: day", "shop, day: Must be a plain decimal string"),
        ("shop: day -1", "shop, day: Must be a plain decimal string"),
        ("shop: day 1e3", "shop, day: Must be a plain decimal string"),
        ("shop: day None", "shop, day: Must be a plain decimal string"),
        ("shop: payment 1, week 0.0000001", "shop, week: USDC has 6 decimals."),
        ("shop: day 1; shop: week 1", "shop is named twice."),
        ("; ".join(f"s{number}: day 1" for number in range(MOST_EXCEPTIONS + 1)), "Must be 1 to 500 payees."),
    ],
)
def test_what_is_no_exception_is_refused_in_a_sentence(text, said):
    with pytest.raises(ValueError, match=said):
        read(text)


def test_as_many_payees_as_may_have_limits_have_them():
    assert len(read("\n".join(f"s{number}: day 1" for number in range(MOST_EXCEPTIONS)))) == MOST_EXCEPTIONS


def test_what_an_exception_does_not_name_is_as_of_all_payees_and_none_is_no_limit():
    more = MoreLimits(
        payee_max_per_payment=Decimal(1), payee_daily_limit=Decimal(2), payee_limits=read("shop: day 20, week none")
    )

    assert more.of_payee("shop") == PayeeLimits(Decimal(1), Decimal(20), None)
    assert more.of_payee("Shop") == more.of_payee("other") == PayeeLimits(Decimal(1), Decimal(2), None)
