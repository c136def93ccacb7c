"""Payments that are decided together share transactions on the embedded Solana chain, and each ends by itself."""

from collections.abc import Iterator
from decimal import Decimal

import pytest

from foundation.kernel.assets import Asset
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Leg, Payment, Settlement
from payments.settling.transaction_costs import read_costs
from tests.payments.settling.test_settlement import let_expire
from tests.support.closing_payee import Payee
from tests.support.localnets import SOLANA
from tests.support.scenes import states_of, status_of, transaction_of
from tests.support.solana_groups import MOST_OF_SOL, MOST_TO_ACCOUNTS, MOST_TO_NEW_PAYEES
from tests.support.solana_lists import (
    check_all,
    freeze,
    has,
    make_services,
    open_accounts,
    pay_together,
    txs_of,
)

S = SettlementState
SOL, USDC, PYUSD = Asset.SOL, Asset.USDC, Asset.PYUSD
UNITS = {SOL: 1_250_000_000, USDC: 1_250_000, PYUSD: 1_250_000}


@pytest.fixture(autouse=True)
def at_rest(committed: None) -> Iterator[None]:
    """Let nothing else be under way, and leave nothing."""
    SOLANA.drain()
    SOLANA.observe()
    yield
    SOLANA.drain()


def statuses(payments):
    return [status_of(one) for one in payments]


# --- All of them ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "assets",
    [[USDC] * MOST_TO_NEW_PAYEES, [PYUSD] * MOST_TO_NEW_PAYEES, [SOL] * MOST_OF_SOL, [USDC, SOL], [USDC, PYUSD, PYUSD]],
    ids=["USDC", "PYUSD", "SOL", "USDC and SOL", "both tokens"],
)
def test_what_is_decided_together_for_new_payees_settles_in_one_transaction(assets):
    held = {asset: SOLANA.held(asset) for asset in UNITS}
    payments = pay_together(make_services(*assets))
    (tx,) = set(txs_of(payments))

    SOLANA.drain()

    assert statuses(payments) == [PaymentStatus.SETTLED] * len(payments)
    assert txs_of(payments) == [tx] * len(payments)
    assert [has(one) for one in payments] == [UNITS[asset] for asset in assets]
    assert {asset: held[asset] - SOLANA.held(asset) for asset in UNITS} == {
        asset: units * assets.count(asset) for asset, units in UNITS.items()
    }
    check_all(payments)


def test_nine_payees_that_have_accounts_are_paid_in_one_transaction_and_what_is_more_in_another():
    services = open_accounts(*[USDC] * MOST_TO_ACCOUNTS, USDC)

    payments = pay_together(services)
    txs = txs_of(payments)
    assert [txs.count(tx) for tx in dict.fromkeys(txs)] == [MOST_TO_ACCOUNTS, 1]
    SOLANA.drain()

    assert statuses(payments) == [PaymentStatus.SETTLED] * len(payments)
    assert {has(one) for one in payments} == {UNITS[USDC] + 1}
    check_all(payments)


def test_each_agent_bears_its_part_of_the_fee_and_the_rent_of_the_account_that_its_payment_made():
    (known,) = open_accounts(USDC)
    payments = pay_together([known, *make_services(USDC, PYUSD)])
    row = Settlement.objects.get(pk=transaction_of(payments[0]).pk)
    SOLANA.drain()

    read_costs(SOLANA.caip2, SOLANA.adapter)

    row.refresh_from_db()
    fee, of_usdc, of_pyusd = (Leg.objects.get(settlement=row, payment=one).cost for one in payments)
    assert fee + of_usdc + of_pyusd == row.cost <= row.most_cost
    assert Decimal(0) < fee < Decimal("0.0001")
    assert (of_usdc - fee).quantize(Decimal("1e-8")) == Decimal("0.00203928")
    assert of_pyusd > of_usdc


# --- Not included -----------------------------------------------------------------------------------------------------
def test_those_that_have_expired_are_signed_anew_together_and_land_once():
    payments = pay_together(make_services(USDC, USDC, PYUSD))
    let_expire(payments[0])
    assert SOLANA.follow() == 1

    assert [states_of(one) for one in payments] == [[S.EXPIRED, S.SIGNED]] * 3
    assert len(set(txs_of(payments))) == 1
    SOLANA.drain()

    assert statuses(payments) == [PaymentStatus.SETTLED] * 3
    assert {has(one) for one in payments} == {UNITS[USDC]}
    check_all(payments)


# --- One of them spoils it --------------------------------------------------------------------------------------------
def settle_without(bad: Payment, others: list[Payment]) -> None:
    """See that nothing moved at first, and that then each other one is paid by itself."""
    payments = [*others, bad]
    (spoilt,) = set(txs_of(payments))
    before = [has(one) for one in others]
    SOLANA.include(bad)
    assert not SOLANA.succeeded(spoilt)
    assert [has(one) for one in others] == before
    # While whoever has the relayer's key can send the same message once more, nobody is paid anew.
    SOLANA.follow()
    assert statuses(payments) == [PaymentStatus.APPROVED] * len(payments)
    assert set(txs_of(payments)) == {spoilt}

    SOLANA.drain()

    assert statuses(payments) == [*[PaymentStatus.SETTLED] * len(others), PaymentStatus.FAILED]
    assert [states_of(one) for one in others] == [[S.FAILED, S.FINAL]] * len(others)
    assert len(set(txs_of(others))) == len(others)
    assert [has(one) - had for one, had in zip(others, before, strict=True)] == [UNITS[USDC]] * len(others)
    check_all(payments)


def test_one_whose_account_is_frozen_meanwhile_is_given_back_and_the_others_are_each_paid_alone():
    services = open_accounts(USDC, USDC, USDC)
    payments = pay_together(services)
    freeze(services[1])

    settle_without(payments[1], [payments[0], payments[2]])

    bad = Payment.objects.get(pk=payments[1].pk)
    assert "account is frozen" in bad.failure_reason
    assert has(bad) == 1
    assert states_of(bad) == [S.FAILED, S.FAILED]


def test_one_whose_payee_closes_its_account_meanwhile_is_given_back_and_the_others_are_each_paid_alone():
    payee = Payee(USDC)
    assert payee.ask_for_payment()
    payee.settle_payments()
    services = open_accounts(USDC, USDC)
    payments = pay_together([services[0], payee.service, services[1]])
    payee.close()

    settle_without(payments[1], [payments[0], payments[2]])

    assert payee.held == 0


def test_a_new_payee_whose_payment_another_one_has_spoilt_can_be_paid_all_the_same():
    """It has no account: none was made, so it has closed none."""
    (spoiler,) = open_accounts(USDC)
    new_payees = make_services(USDC, PYUSD)
    payments = pay_together([spoiler, *new_payees])
    freeze(spoiler)
    SOLANA.include(payments[0])
    SOLANA.follow()
    SOLANA.observe()
    assert [states_of(one) for one in payments] == [[S.INCLUDED]] * 3

    again = pay_together(new_payees)
    SOLANA.drain()

    assert statuses([*again, *payments[1:]]) == [PaymentStatus.SETTLED] * 4
    assert {has(one) for one in again} == {2 * UNITS[USDC]}
