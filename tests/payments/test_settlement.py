"""Settlement on the real chain: reverts, stuck transactions, reorganisations, gaps. What is paid is paid once."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from django.conf import settings

from allowance.kernel.assets import Asset
from allowance.kernel.times import utc_now
from payments.chains.base import Finality
from payments.chains.registry import served_chains
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import ChainState, Payment, Relayer, Settlement
from payments.operations import request_payment
from payments.relayers import tend_relayers
from payments.settlement import broadcast, confirm, sought_of
from payments.views import payment_environment
from payments.watcher import observe
from policy.models import Agent
from tests.chains import LOCALNET, balance_of, daily_cap, drain, is_settled, make_request, paused_escrow, rpc
from tests.factories import make_agent, make_service, new_address
from tests.invariants import check_agent, check_nonces
from tests.scenes import HOUR, state_of, states_of, status_of, transaction_of, transactions_of, transitions_of, turn_of

S = SettlementState
PayOnChain = Callable[..., Payment]


@pytest.fixture
def real(committed: None) -> Iterator[PayOnChain]:
    """Have payments approved on the real chain, on which nothing else is under way; all but one relayer stand by."""
    drain()
    observe(LOCALNET, served_chains()[LOCALNET])
    idle = Relayer.objects.filter(chain=LOCALNET, number__gt=0)
    idle.update(is_enabled=False)
    agent = make_agent()

    def pay(amount: str = "1.00", now: datetime | None = None) -> Payment:
        service = make_service(recipient=f"evm-localnet:{new_address()}")
        environment = replace(payment_environment(), wake=lambda _: None, now=now)
        entry = request_payment(make_request(agent, service, amount), environment).entry
        return Payment.objects.get(pk=entry.payment_id)

    yield pay
    idle.update(is_enabled=True)
    check_nonces(LOCALNET)
    check_agent(agent.id)


def send() -> int:
    return broadcast(LOCALNET, served_chains()[LOCALNET])


def follow() -> int:
    return confirm(LOCALNET, served_chains()[LOCALNET])


def include(payment: Payment) -> dict[str, Any]:
    """Send a payment and wait until it is in a block; returns the receipt."""
    send()
    while (receipt := rpc("eth_getTransactionReceipt", transaction_of(payment).tx)) is None:
        rpc("evm_mine")
    found: dict[str, Any] = receipt
    return found


def recipient_has(payment: Payment) -> int:
    return balance_of(Asset.USDC, payment.recipient)


# --- Reverts ----------------------------------------------------------------------------------------------------------
def test_a_payment_into_a_paused_escrow_reverts_and_is_given_back(real):
    payment = real("1.50")

    with paused_escrow():
        assert include(payment)["status"] == "0x0"
        drain()

    failed = Payment.objects.get(pk=payment.pk)
    assert (failed.status, state_of(payment)) == (PaymentStatus.FAILED, S.FAILED)
    assert failed.failure_reason.startswith("Reverted: ")
    assert "pausable: contract is paused" in failed.failure_reason
    assert not is_settled(payment.pk)
    assert recipient_has(payment) == 0
    assert Agent.objects.get(pk=payment.agent_id).balance == 1000


def test_a_payment_over_the_escrows_daily_cap_reverts_and_the_next_one_arrives(real):
    over = real("2.00")

    with daily_cap(Asset.USDC, 1):
        include(over)
        drain()
    fits = real("0.25")
    include(fits)
    drain()

    failed = Payment.objects.get(pk=over.pk)
    assert failed.status == PaymentStatus.FAILED
    assert "escrow: over daily cap" in failed.failure_reason
    assert status_of(fits) == PaymentStatus.SETTLED
    assert (recipient_has(over), recipient_has(fits)) == (0, 250_000)


def test_a_real_revert_fails_nothing_before_it_is_final(real):
    payment = real()
    with paused_escrow():
        receipt = include(payment)
        row = Settlement.objects.select_related("relayer", "payment").get(tx=receipt["transactionHash"])
        number = int(receipt["blockNumber"], 16)
        before = Finality(number - 1, utc_now(), number)
        seen = served_chains()[LOCALNET].find_inclusions([sought_of(row)], before)
        proof = served_chains()[LOCALNET].find_proofs([sought_of(row)], before)[row.tx]
        drain()

    assert not seen.inclusions[row.tx].is_final
    assert (proof.is_paid, proof.is_nonce_used) == (False, False)
    assert status_of(payment) == PaymentStatus.FAILED


# --- Stuck ------------------------------------------------------------------------------------------------------------
@pytest.fixture
def low_fees(real: PayOnChain) -> Iterator[None]:
    """Let what is signed offer less than the chain asks, until the chain is observed again."""
    chain = ChainState.objects.filter(chain=LOCALNET)
    chain.update(state={**chain.get().state, "maxFeePerGas": 2, "maxPriorityFeePerGas": 1})
    yield
    observe(LOCALNET, served_chains()[LOCALNET])


@pytest.mark.usefixtures("low_fees")
def test_a_payment_that_is_stuck_lands_once_with_a_higher_fee_and_so_do_those_behind_it(real, settings):
    settings.STUCK_AFTER_S = 1
    payments = [real("0.10"), real("0.20")]
    send()
    for _ in range(2):
        rpc("evm_mine")
    follow()
    assert [states_of(payment) for payment in payments] == [[S.BROADCAST], [S.BROADCAST]]

    for payment in payments:  # each in its turn: only the head of the line gets a higher fee
        Settlement.objects.filter(payment__in=payments).update(changed_at=utc_now() - HOUR / 60)
        observe(LOCALNET, served_chains()[LOCALNET])
        assert len(transactions_of(payment)) == 2
        while state_of(payment) != S.INCLUDED and status_of(payment) != PaymentStatus.SETTLED:
            send()
            rpc("evm_mine")
            follow()
    drain()

    for payment, units in zip(payments, (100_000, 200_000), strict=True):
        old, new = transactions_of(payment)
        assert (old.state, new.state, old.nonce) == (S.REPLACED, S.FINAL, new.nonce)
        assert rpc("eth_getTransactionReceipt", old.tx) is None
        assert rpc("eth_getTransactionReceipt", new.tx)["status"] == "0x1"
        assert recipient_has(payment) == units
        assert status_of(payment) == PaymentStatus.SETTLED


# --- Reorganised ------------------------------------------------------------------------------------------------------
def test_a_payment_whose_block_is_reorganised_away_lands_once_in_another(real):
    payment, first_block = _reorganised(real)
    row = transaction_of(payment)
    assert rpc("eth_getTransactionReceipt", row.tx) is None

    follow()
    # The clock of the chain goes on: found gone, it is sent again at once.
    assert ("included", "broadcast", "Its block is no longer on the chain.") in transitions_of(row)
    drain()

    landed = transaction_of(payment)
    assert (landed.tx, landed.state, status_of(payment)) == (row.tx, S.FINAL, PaymentStatus.SETTLED)
    assert landed.block_hash != first_block
    assert landed.block_hash == rpc("eth_getTransactionReceipt", row.tx)["blockHash"]
    assert recipient_has(payment) == 1_000_000


def _reorganised(real: PayOnChain) -> tuple[Payment, str]:
    """Have a payment seen in a block that then vanishes; the chain may be faster than we are, and make it final."""
    for _ in range(20):
        payment = real()
        number = int(include(payment)["blockNumber"], 16)
        follow()
        depth = int(rpc("eth_blockNumber"), 16) - number + 1
        if state_of(payment) == S.INCLUDED and depth < 2:
            rpc("anvil_reorg", hex(depth))
            return payment, transaction_of(payment).block_hash
        drain()
    pytest.fail("the chain is always faster")


# --- Gaps -------------------------------------------------------------------------------------------------------------
def test_a_payment_that_expired_leaves_a_nonce_that_is_filled_and_the_next_one_lands(real):
    expired = real("5.00", utc_now() - 2 * HOUR)
    later = real("0.50")
    adapter = served_chains()[LOCALNET]
    assert turn_of(transaction_of(later)).place == turn_of(transaction_of(expired)).place + 1
    assert follow() == 1  # it was never sent; the chain's time is past its deadline
    assert (state_of(expired), status_of(expired)) == (S.EXPIRED, PaymentStatus.FAILED)

    tend_relayers(LOCALNET, adapter, adapter.observe())
    drain()

    filler = Settlement.objects.get(payment=None, relayer__chain=LOCALNET, nonce=transaction_of(expired).nonce)
    receipt = rpc("eth_getTransactionReceipt", filler.tx)
    assert (filler.state, receipt["status"], receipt["logs"]) == (S.FINAL, "0x1", [])
    assert receipt["from"] == receipt["to"]
    assert status_of(later) == PaymentStatus.SETTLED
    assert (recipient_has(expired), recipient_has(later)) == (0, 500_000)


def test_a_payment_whose_nonce_was_used_elsewhere_is_given_back_with_proof(real):
    adapter = served_chains()[LOCALNET]
    payment = real()
    row = transaction_of(payment)
    turn = sought_of(Settlement.objects.select_related("relayer", "payment").get(pk=row.pk)).turn
    assert adapter.nonces is not None
    stranger = adapter.nonces.prepare_filler(turn, adapter.observe())
    assert adapter.send([stranger.raw]) == [None]
    while rpc("eth_getTransactionReceipt", stranger.tx) is None:
        rpc("evm_mine")

    drain()

    assert (state_of(payment), status_of(payment)) == (S.FAILED, PaymentStatus.FAILED)
    assert Payment.objects.get(pk=payment.pk).failure_reason == "Its nonce was used by another transaction."
    assert recipient_has(payment) == 0
    later = real("0.75")
    drain()
    assert (status_of(later), recipient_has(later)) == (PaymentStatus.SETTLED, 750_000)


def test_the_real_relayers_are_seen_with_their_nonces_and_gas_money(real):
    payment = real()
    drain()
    adapter = served_chains()[LOCALNET]
    observe(LOCALNET, adapter)
    relayer = transaction_of(payment).relayer
    assert (relayer.number, relayer.next_nonce) == (0, relayer.mined_nonce)
    assert relayer.gas_balance is not None
    assert relayer.gas_balance > 0
    assert relayer.is_funded
    assert settings.CHAINS[LOCALNET].chain.chain_id == 31337
