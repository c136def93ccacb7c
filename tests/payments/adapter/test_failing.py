"""What reverts is said to have failed once it is final, for the escrow's own reason."""

import os
from datetime import timedelta

import pytest
from eth_account import Account

from allowance.kernel.assets import Asset
from allowance.kernel.times import utc_now
from payments.chains.base import ChainUnavailable, Proof
from policy.signer import LocalSigner
from tests.payments.adapter.deployment import Deployment, Sent


def over_the_cap(chain: Deployment) -> Sent:
    (turn,) = chain.relayers()
    payment = chain.pay(turn, "3.00", Asset.EURC)
    with chain.cap(Asset.EURC, 0):
        chain.land(payment)
    return payment


def expired(chain: Deployment) -> Sent:
    (turn,) = chain.relayers()
    return chain.pay(turn, now=utc_now() - timedelta(hours=2))


def of_an_unknown_relayer(chain: Deployment) -> Sent:
    (turn,) = chain.relayers(known=False)
    return chain.pay(turn)


def while_paused(chain: Deployment) -> Sent:
    (turn,) = chain.relayers()
    payment = chain.pay(turn)
    with chain.paused():
        chain.land(payment)
    return payment


def with_another_signature(chain: Deployment) -> Sent:
    (turn,) = chain.relayers()
    return chain.pay(turn, signer=LocalSigner(os.urandom(32), bytes(Account.create().key)))


def of_more_than_there_is(chain: Deployment) -> Sent:
    (turn,) = chain.relayers()
    return chain.pay(turn, "500000000")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (over_the_cap, "Reverted: escrow: over daily cap"),
        (expired, "Reverted: escrow: expired"),
        (of_an_unknown_relayer, "Reverted: escrow: not a relayer"),
        (while_paused, "Reverted: pausable: contract is paused"),
        (with_another_signature, "Reverted: escrow: wrong policy signature"),
        (of_more_than_there_is, "Reverted: erc20: transfer amount exceeds balance"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_refused_payment_fails_for_the_escrows_reason(chain, make, reason):
    payment = make(chain)

    landed = chain.land(payment)[payment.tx]

    adapter = chain.adapter()
    proofs = adapter.find_proofs([payment.sought], adapter.find_finality())
    assert (landed.is_final, landed.failure) == (True, "Reverted.")
    assert adapter.find_reason(payment.sought, landed.block_number) == reason
    assert proofs == {payment.tx: Proof(is_paid=False, is_nonce_used=True, is_nonce_mined=True)}
    assert chain.balance_of(payment.order.recipient, payment.order.asset) == 0


def test_a_payment_that_will_be_refused_is_taken_by_the_node(chain):
    assert chain.adapter().send([expired(chain).raw]) == [None]


def test_the_second_transaction_of_a_payment_fails_and_the_payment_counts_as_paid(chain):
    one, other = chain.relayers(2)
    payment = chain.pay(one)
    chain.land(payment)
    again = chain.pay(other, order=payment.order)

    landed = chain.land(again)[again.tx]

    adapter = chain.adapter()
    proofs = adapter.find_proofs([again.sought], adapter.find_finality())
    assert landed.failure == "Reverted."
    assert adapter.find_reason(again.sought, landed.block_number) == "Reverted: escrow: already settled"
    assert proofs == {again.tx: Proof(is_paid=True, is_nonce_used=True, is_nonce_mined=True)}
    assert chain.balance_of(payment.order.recipient) == 1_500_000


def test_a_transaction_that_costs_more_than_the_relayer_has_is_not_taken_and_says_why(chain):
    (turn,) = chain.relayers()
    adapter = chain.adapter()
    state = adapter.observe()
    payment = chain.pay(turn, state=state | {"maxFeePerGas": 10**6 * state["maxFeePerGas"]})
    affordable = chain.pay(turn)

    refusals = adapter.send([payment.raw, affordable.raw])

    assert "funds" in refusals[0]
    assert refusals[1] is None
    assert chain.land(affordable)[affordable.tx].failure is None


def test_an_asset_that_is_not_served_is_not_prepared(chain):
    (turn,) = chain.relayers()

    with pytest.raises(ChainUnavailable):
        chain.pay(turn, asset=Asset.USDT)
