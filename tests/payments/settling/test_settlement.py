"""Settlement on the real chains: failures, reorganisations, expiry. What is paid is paid once."""

from dataclasses import replace
from typing import Any

import pytest

from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import DepositCursor, Payment, Settlement
from payments.reconciling.escrow_history import search_history
from payments.settling.next_states import HEIGHT_MARGIN
from payments.settling.transaction_rows import query_of
from policy.models import Agent
from tests.payments.conftest import LIMIT, PayOnChain
from tests.support.local_chain import Localnet
from tests.support.localnets import EVM, SOLANA
from tests.support.scenes import (
    HOUR,
    row_of,
    state_of,
    states_of,
    status_of,
    transaction_of,
    transactions_of,
    transitions_of,
)

S = SettlementState
ASSETS = [(localnet, asset) for localnet in (EVM, SOLANA) for asset in localnet.assets[:3]]
on_solana = pytest.mark.parametrize("localnet", [SOLANA], ids=["solana-localnet"])
VALIDITY_BLOCKS = 150


def has(localnet: Localnet, payment: Payment) -> int:
    return localnet.balance_of(Asset(payment.asset), payment.recipient)


def read(payment: Payment) -> Settlement:
    return Settlement.objects.select_related("relayer").get(pk=transaction_of(payment).pk)


# --- Failed -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("localnet", "asset"), ASSETS, ids=lambda one: getattr(one, "alias", one))
def test_a_payment_that_the_chain_refuses_is_given_back_and_the_next_one_arrives(real, localnet, asset):
    # The allowance covers it, the escrow does not.
    failing = real(LIMIT, asset=asset)

    localnet.include(failing)
    localnet.drain()
    fits = real("0.25", asset=asset)
    localnet.include(fits)
    localnet.drain()

    failed = Payment.objects.get(pk=failing.pk)
    assert (failed.status, state_of(failing)) == (PaymentStatus.FAILED, S.FAILED)
    assert failed.failure_reason.startswith(
        ("Reverted: ERC20InsufficientBalance(", "Failed: custom program error 0x1 (insufficient funds)")
    )
    assert not localnet.succeeded(transaction_of(failing).tx)
    assert status_of(fits) == PaymentStatus.SETTLED
    assert [has(localnet, failing), has(localnet, fits)] == [0, 25 * 10 ** (asset.decimals - 2)]
    assert Agent.objects.get(pk=failing.agent_id).balance == int(LIMIT) - fits.amount


def test_a_failure_on_the_chain_fails_nothing_before_it_is_final(real, localnet):
    payment = real(LIMIT)
    number = localnet.include(payment)
    sought = query_of(row_of(read(payment)))
    finality = replace(localnet.adapter.follower.find_finality(), block_number=number - 1)

    seen = localnet.adapter.follower.find_inclusions([sought], finality).inclusions[sought.tx]
    localnet.drain()

    assert (seen.is_final, seen.failure) == (False, None)
    assert status_of(payment) == PaymentStatus.FAILED


# --- Reorganised ------------------------------------------------------------------------------------------------------
def test_a_payment_whose_block_is_reorganised_away_lands_once_in_another(real, localnet):
    payment, first_block = _reorganised(real, localnet)
    row = transaction_of(payment)
    assert localnet.find_block(row.tx) is None

    while state_of(payment) == S.INCLUDED:
        localnet.follow()
        localnet.mine()
    # The clock of the chain goes on: found gone, it is sent again at once.
    reasons = [reason for old, new, reason in transitions_of(row) if (old, new) == ("included", "broadcast")]
    assert reasons[0] in ("Its block is no longer on the chain.", "It is not in the block in which a node saw it.")
    localnet.drain()

    landed = transaction_of(payment)
    assert (landed.tx, landed.state, status_of(payment)) == (row.tx, S.FINAL, PaymentStatus.SETTLED)
    assert landed.block_hash != first_block
    assert landed.block_number == localnet.find_block(row.tx)
    assert has(localnet, payment) == 1_000_000


def _reorganised(real: PayOnChain, localnet: Localnet) -> tuple[Payment, str]:
    """Have a payment seen in a block that then vanishes; the chain may be faster than we are, and make it final."""
    for _ in range(20):
        payment = real()
        number = localnet.include(payment)
        localnet.follow()
        if state_of(payment) == S.INCLUDED and localnet.reorganise(number):
            return payment, transaction_of(payment).block_hash
        localnet.drain()
        localnet.observe()
    pytest.fail("the chain is always faster")


# --- Expired ----------------------------------------------------------------------------------------------------------
def let_expire(payment: Payment) -> None:
    """Let final blocks pass until a chain without nonces takes the newest transaction of a payment no more, and the
    search of the escrow's history, which trails a little, comes past that.
    """
    search_history(SOLANA.caip2, SOLANA.adapter)
    since_break = DepositCursor.objects.get(chain=SOLANA.caip2).strays_until_height or 0
    last = max((transaction_of(payment).valid_until_height or 0) + HEIGHT_MARGIN, since_break)
    last += 2 * SOLANA.adapter.escrow.deposits_trail
    SOLANA.advance(max(1, last + 1 - SOLANA.final_height))
    while SOLANA.final_height <= last:
        SOLANA.mine()
    SOLANA.observe()


def offer(*rows: Settlement) -> list[Any]:
    return [SOLANA.adapter.broadcaster.send([bytes(row.raw)])[0] for row in rows]


@on_solana
@pytest.mark.parametrize("asset", [Asset.SOL, Asset.USDC, Asset.PYUSD])
@pytest.mark.parametrize("is_old_first", [True, False], ids=["old first", "new first"])
def test_an_expired_payment_is_signed_again_and_of_the_two_one_lands(real, localnet, asset, is_old_first):
    payment = real("1.5", asset=asset)
    let_expire(payment)

    assert localnet.follow() == 1
    old, new = transactions_of(payment)
    assert [old.state, new.state] == [S.EXPIRED, S.SIGNED]
    refusals = offer(old, new) if is_old_first else offer(new, old)[::-1]
    localnet.drain()
    for _ in range(3):
        offer(old, new)
        localnet.mine()

    assert (refusals[0] is None, refusals[1]) == (False, None)
    assert states_of(payment) == [S.EXPIRED, S.FINAL]
    assert status_of(payment) == PaymentStatus.SETTLED
    assert (localnet.find_block(old.tx), localnet.succeeded(new.tx)) == (None, True)
    assert has(localnet, payment) == 15 * 10 ** (asset.decimals - 1)


@on_solana
def test_a_payment_that_expires_again_and_again_lands_once(real, localnet):
    payment = real("0.5")
    for _ in range(3):
        let_expire(payment)
        assert localnet.follow() == 1
    rows = transactions_of(payment)

    offer(*rows)
    localnet.drain()
    offer(*rows)
    localnet.mine()

    assert states_of(payment) == [S.EXPIRED] * 3 + [S.FINAL]
    assert has(localnet, payment) == 500_000


@on_solana
def test_payments_that_are_sent_when_their_time_is_nearly_over_land_once_each(real, localnet):
    """Some in time, some signed again: that is the chain's to decide."""
    payments = [real("0.25") for _ in range(12)]
    last = transaction_of(payments[0]).valid_until_height or 0
    rows = [transaction_of(payment) for payment in payments]
    SOLANA.advance(max(1, last - SOLANA.final_height - 6))

    for row in rows:
        offer(row)
        SOLANA.mine()
    localnet.drain()
    offer(*rows)
    localnet.mine()

    assert {status_of(payment) for payment in payments} == {PaymentStatus.SETTLED}
    assert {has(localnet, payment) for payment in payments} == {250_000}
    for payment in payments:
        *old, new = states_of(payment)
        assert (set(old) <= {S.EXPIRED}, new) == (True, S.FINAL)


@on_solana
def test_what_is_in_a_block_is_not_signed_again_however_long_nobody_looks(real, localnet):
    payment = real("0.5")
    localnet.include(payment)
    let_expire(payment)

    assert localnet.follow() == 1

    assert states_of(payment) == [S.FINAL]
    assert has(localnet, payment) == 500_000


@on_solana
def test_a_payment_that_expired_when_nobody_waits_for_it_any_more_is_given_back(real, localnet):
    payment = real("5.00", utc_now() - 2 * HOUR)
    let_expire(payment)

    assert localnet.follow() == 1
    (refusal,) = offer(transaction_of(payment))
    localnet.mine()

    assert (states_of(payment), status_of(payment)) == ([S.EXPIRED], PaymentStatus.FAILED)
    assert refusal
    assert has(localnet, payment) == 0
    assert Agent.objects.get(pk=payment.agent_id).balance == int(LIMIT)


# --- Watched ----------------------------------------------------------------------------------------------------------
def test_the_real_relayers_are_seen_with_their_gas_money_and_their_nonces_if_they_have_any(real, localnet):
    payment = real()
    localnet.drain()

    localnet.observe()

    relayer = transaction_of(payment).relayer
    assert relayer.number == 0
    assert relayer.next_nonce is None or relayer.next_nonce == relayer.mined_nonce > 0
    assert (relayer.next_nonce is None) == (localnet is SOLANA)
    assert relayer.gas_balance is not None
    assert relayer.gas_balance > 0
    assert relayer.is_funded
