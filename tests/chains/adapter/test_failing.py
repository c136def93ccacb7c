"""What fails on a chain is said to have failed once it is final, for the chain's own reason; nothing was moved."""

import os
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from eth_account import Account

from chains.port import ChainUnavailable, Order
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from policy.signer import LocalSigner
from tests.chains.adapter.deployment import Deployment, Sent
from tests.chains.adapter.evm_deployment import EvmDeployment
from tests.chains.adapter.solana_deployment import SolanaDeployment
from tests.support.fates import FAILED, PAID

TOO_MUCH = "500000000"


def check_that_it_fails(chain: Deployment, make: Callable[[Any], Sent], reason: str) -> None:
    held = {asset: chain.held(asset) for asset in chain.assets}
    payment = make(chain)

    landed = chain.land(payment)[payment.tx]

    adapter = chain.adapter()
    assert landed.is_final
    assert landed.failure
    assert adapter.follower.find_reason(payment.sought, landed.block_number).startswith(reason)
    assert chain.fates_of(payment) == [FAILED]
    assert payment.order
    assert chain.balance_of(payment.order.recipient, payment.order.asset) == 0
    assert {asset: chain.held(asset) for asset in chain.assets} == held


# --- On every chain ---------------------------------------------------------------------------------------------------
def test_what_failed_does_not_keep_the_next_from_landing(chain):
    first, second = chain.turns(2)
    failing, payment = chain.pay(first, TOO_MUCH), chain.pay(second)

    landed = chain.land(failing, payment)

    assert landed[failing.tx].failure
    assert landed[payment.tx].failure is None
    assert chain.balance_of(payment.order.recipient) == 1_500_000


def test_a_payment_that_will_fail_is_taken_by_the_node(chain):
    """So that the chain itself says so, and not only a node."""
    (submitter,) = chain.relayers()

    assert chain.adapter().broadcaster.send([chain.pay(submitter, TOO_MUCH).raw]) == [None]


def test_altered_bytes_are_not_taken_and_move_nothing(chain):
    (submitter,) = chain.relayers()
    payment = chain.pay(submitter)
    units = (1_500_000).to_bytes(8, "big" if isinstance(chain, EvmDeployment) else "little")
    altered = payment.raw.replace(units, (1_500_001).to_bytes(8, "big" if units[0] == 0 else "little"))
    assert altered != payment.raw
    held = chain.held()

    # On an EVM chain it is a transaction of somebody else, who has nothing.
    assert chain.adapter().broadcaster.send([altered]) != [None]
    chain.land(payment)

    assert chain.held() == held - 1_500_000


# --- On EVM chains ----------------------------------------------------------------------------------------------------
def over_the_cap(evm: EvmDeployment) -> Sent:
    (submitter,) = evm.relayers()
    payment = evm.pay(submitter, "3.00", Asset.EURC)
    with evm.cap(Asset.EURC, 0):
        evm.land(payment)
    return payment


def expired(evm: EvmDeployment) -> Sent:
    (submitter,) = evm.relayers()
    return evm.pay(submitter, now=utc_now() - timedelta(hours=2))


def of_an_unknown_relayer(evm: EvmDeployment) -> Sent:
    (submitter,) = evm.relayers(known=False)
    return evm.pay(submitter)


def while_paused(evm: EvmDeployment) -> Sent:
    (submitter,) = evm.relayers()
    payment = evm.pay(submitter)
    with evm.paused():
        evm.land(payment)
    return payment


def with_another_signature(evm: EvmDeployment) -> Sent:
    (submitter,) = evm.relayers()
    return evm.pay(submitter, signer=LocalSigner(os.urandom(32), bytes(Account.create().key)))


def of_more_than_there_is(chain: Deployment, asset: Asset = Asset.USDC) -> Sent:
    (submitter,) = chain.relayers()
    return chain.pay(submitter, TOO_MUCH, asset)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (over_the_cap, "Reverted: escrow: over daily cap"),
        (expired, "Reverted: escrow: expired"),
        (of_an_unknown_relayer, "Reverted: escrow: not a relayer"),
        (while_paused, "Reverted: EnforcedPause"),
        (with_another_signature, "Reverted: escrow: wrong policy signature"),
        (of_more_than_there_is, "Reverted: ERC20InsufficientBalance("),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_payment_that_the_contract_refuses_fails_for_its_reason(evm, make, reason):
    check_that_it_fails(evm, make, reason)


def test_the_second_transaction_of_a_payment_fails_and_the_payment_counts_as_paid(evm):
    one, other = evm.relayers(2)
    payment = evm.pay(one)
    evm.land(payment)
    again = evm.pay(other, order=payment.order)

    landed = evm.land(again)[again.tx]

    assert landed.failure == "Reverted."
    assert evm.adapter().follower.find_reason(again.sought, landed.block_number) == "Reverted: escrow: already settled"
    assert evm.fates_of(again) == [PAID]
    assert evm.balance_of(payment.order.recipient) == 1_500_000


def test_a_transaction_that_costs_more_than_the_relayer_has_is_not_taken_and_says_why(evm):
    (submitter,) = evm.relayers()
    adapter = evm.adapter()
    state = adapter.observer.observe()
    payment = evm.pay(submitter, state=state | {"maxFeePerGas": 10**6 * state["maxFeePerGas"]})
    affordable = evm.pay(submitter)

    refusals = adapter.broadcaster.send([payment.raw, affordable.raw])

    assert "funds" in refusals[0]
    assert refusals[1] is None
    assert evm.land(affordable)[affordable.tx].failure is None


_ERROR = "Failed: custom program error"


# --- On Solana --------------------------------------------------------------------------------------------------------
def of_more_sol_than_there_is(solana: SolanaDeployment) -> Sent:
    return of_more_than_there_is(solana, Asset.SOL)


def of_more_pyusd_than_there_is(solana: SolanaDeployment) -> Sent:
    return of_more_than_there_is(solana, Asset.PYUSD)


def to_a_frozen_account(solana: SolanaDeployment, asset: Asset = Asset.USDC) -> Sent:
    (submitter,) = solana.relayers()
    order = Order(f"pay_{os.urandom(13).hex()}", asset, Decimal(1), solana.new_frozen_address(asset))
    return solana.pay(submitter, order=order)


def to_a_frozen_pyusd_account(solana: SolanaDeployment) -> Sent:
    return to_a_frozen_account(solana, Asset.PYUSD)


def of_too_little_to_stay(solana: SolanaDeployment) -> Sent:
    """SOL to an account that is emptier than it was thought to be."""
    (submitter,) = solana.relayers()
    return solana.pay(submitter, "0.0005", Asset.SOL, payee={"lamports": 10**9})


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (of_more_than_there_is, f"{_ERROR} 0x1 (insufficient funds) in instruction 4. Error: insufficient funds"),
        (of_more_sol_than_there_is, f"{_ERROR} 0x1 (insufficient funds) in instruction 7. Error: insufficient funds"),
        (of_more_pyusd_than_there_is, f"{_ERROR} 0x1 (insufficient funds) in instruction 4. Error: insufficient funds"),
        (to_a_frozen_account, f"{_ERROR} 0x11 (account is frozen) in instruction 4. Error: Account is frozen"),
        (to_a_frozen_pyusd_account, f"{_ERROR} 0x11 (account is frozen) in instruction 4. Error: Account is frozen"),
        (of_too_little_to_stay, "Failed: an account would be left with less than the rent-exempt minimum."),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_payment_that_the_programs_refuse_fails_for_their_reason(solana, make, reason):
    check_that_it_fails(solana, make, reason)


def test_a_payment_with_another_co_signature_is_not_prepared(solana):
    (submitter,) = solana.relayers()

    with pytest.raises(ChainUnavailable):
        solana.pay(submitter, signer=LocalSigner(os.urandom(32), os.urandom(32), os.urandom(32)))


def test_too_little_sol_for_an_empty_account_is_not_prepared(solana):
    (submitter,) = solana.relayers()

    with pytest.raises(ChainUnavailable, match="the least that an account must hold"):
        solana.pay(submitter, "0.0005", Asset.SOL)
