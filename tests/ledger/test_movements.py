"""Movements of balances that are no payments: fundings, withdrawals and adjustments, by their author and reason."""

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from threading import Barrier
from typing import Any

import pytest
from django.db import connection

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.money import AmountError, parse_signed_amount
from ledger.models import BalanceMovement
from ledger.movements import find_newest_by_hand
from ledger.operations import adjust_balance, fund_agent, withdraw_funds
from policy.models import Agent
from tests.support.factories import decide, make_agent, make_service
from tests.support.invariants import check_agent
from tests.support.local_ids import LOCALNET

WHY: dict[str, Any] = {"by": "fiona", "reason": "Ticket 7"}


def newest(agent: Agent) -> BalanceMovement:
    return BalanceMovement.objects.filter(agent=agent)[0]


def balance(agent: Agent) -> Any:
    return Agent.objects.get(pk=agent.pk).balance


# --- Operations -------------------------------------------------------------------------------------------------------
def test_a_withdrawal_takes_from_the_balance_and_keeps_author_reason_and_chain(agent):
    returned = withdraw_funds(agent.id, amount=Decimal("400.5"), chain=LOCALNET, **WHY)

    moved = newest(agent)
    assert (returned.balance_after, balance(agent)) == (Decimal("599.5"), Decimal("599.5"))
    assert (moved.kind, moved.amount, moved.balance_after) == ("withdrawal", Decimal("-400.5"), Decimal("599.5"))
    assert (moved.author, moved.reason, moved.chain) == ("fiona", "Ticket 7", LOCALNET)
    check_agent(agent.id)


@pytest.mark.parametrize("amount", ["0.000001", "-0.000001", "250"])
def test_an_adjustment_changes_the_balance_by_its_signed_amount(agent, amount):
    adjust_balance(agent.id, amount=Decimal(amount), chain=LOCALNET, **WHY)

    moved = newest(agent)
    assert balance(agent) == 1000 + Decimal(amount)
    assert (moved.kind, moved.amount, moved.chain) == ("adjustment", Decimal(amount), LOCALNET)
    check_agent(agent.id)


def test_a_funding_may_say_where_the_money_came_in(agent):
    fund_agent(agent.id, amount=Decimal(1), by="fiona", chain=LOCALNET)

    assert (newest(agent).kind, newest(agent).chain) == ("funding", LOCALNET)


def test_the_whole_balance_can_leave_and_not_a_unit_more(agent):
    for take in (
        lambda amount: withdraw_funds(agent.id, amount=amount, chain=LOCALNET, **WHY),
        lambda amount: adjust_balance(agent.id, amount=-amount, chain=LOCALNET, **WHY),
    ):
        with pytest.raises(OperationRefused, match=r"^The balance of .* is 1000\.00 USDC\.$"):
            take(Decimal("1000.000001"))
        take(Decimal(1000))
        assert balance(agent) == 0
        fund_agent(agent.id, amount=Decimal(1000), by="fiona")


@pytest.mark.parametrize("amount", ["0", "-1", "0.0000001", "NaN", "Infinity"])
def test_a_withdrawal_is_a_positive_amount_of_the_asset(agent, amount):
    with pytest.raises(OperationRefused):
        withdraw_funds(agent.id, amount=Decimal(amount), chain=LOCALNET, **WHY)

    assert balance(agent) == 1000


@pytest.mark.parametrize("amount", ["0", "0.0000001", "NaN", "-Infinity"])
def test_an_adjustment_is_an_amount_of_the_asset_and_not_zero(agent, amount):
    with pytest.raises(OperationRefused):
        adjust_balance(agent.id, amount=Decimal(amount), chain=LOCALNET, **WHY)

    assert balance(agent) == 1000


@pytest.mark.parametrize("missing", [{"by": ""}, {"by": " "}, {"reason": ""}, {"reason": "\n"}])
def test_a_movement_by_hand_needs_an_author_and_a_reason(agent, missing):
    for move in (adjust_balance, withdraw_funds):
        with pytest.raises(OperationRefused, match=r"^Give the author and a reason\.$"):
            move(agent.id, amount=Decimal(1), chain=LOCALNET, **{**WHY, **missing})

    assert balance(agent) == 1000


def test_a_reason_has_a_length(agent):
    adjust_balance(agent.id, amount=Decimal(1), chain=LOCALNET, by="fiona", reason="x" * 500)
    with pytest.raises(OperationRefused, match="at most 500"):
        adjust_balance(agent.id, amount=Decimal(1), chain=LOCALNET, by="fiona", reason="x" * 501)


def test_an_agent_that_does_not_exist_is_refused(db):
    with pytest.raises(OperationRefused, match=r"^There is no agent nobody\.$"):
        adjust_balance("nobody", amount=Decimal(1), chain=LOCALNET, **WHY)


def test_what_was_seen_before_another_movement_by_hand_is_not_booked(agent):
    seen = find_newest_by_hand(agent.id)
    decide(agent, make_service(), "1")  # payments and fundings go on meanwhile
    fund_agent(agent.id, amount=Decimal(1), by="fiona")
    withdraw_funds(agent.id, amount=Decimal(1), chain=LOCALNET, after=seen, **WHY)

    for move in (adjust_balance, withdraw_funds):
        with pytest.raises(OperationRefused, match="was booked meanwhile"):
            move(agent.id, amount=Decimal(1), chain=LOCALNET, after=seen, **WHY)

    assert balance(agent) == 999


@pytest.mark.usefixtures("committed")
def test_withdrawals_at_once_never_take_more_than_there_is():
    agent, start = make_agent(balance="5"), Barrier(8)

    def withdraw(_: int) -> bool:
        start.wait()
        try:
            withdraw_funds(agent.id, amount=Decimal(1), chain=LOCALNET, **WHY)
        except OperationRefused:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(8) as pool:
        booked = list(pool.map(withdraw, range(8)))

    assert (booked.count(True), balance(agent)) == (5, 0)
    check_agent(agent.id)


# --- Amounts with a sign ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "amount"), [("-0.50", "-0.5"), ("+3", "3"), ("7.000001", "7.000001"), ("-99999999999999999999", None)]
)
def test_an_amount_may_have_a_sign(text, amount):
    assert parse_signed_amount(text, Asset.USDC) == Decimal(amount or text)


@pytest.mark.parametrize("text", ["", "-", "+", "--1", "+-1", "- 1", "1-", "-0", "0", "1e3", "\u22121", "-0.0000001"])
def test_what_is_not_an_amount_with_a_sign_is_refused(text):
    with pytest.raises(AmountError):
        parse_signed_amount(text, Asset.USDC)
