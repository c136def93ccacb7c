"""The chain enforces idempotency, too: what stands for a key is paid once, whatever the ledger remembers of it."""

from dataclasses import replace
from decimal import Decimal

import pytest

from chains.port import Submitter, TransactionPlan
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from payments.deciding.escrow_ids import key_hash
from payments.lifecycle import PaymentStatus
from payments.models import ChainState, Installation, Payment, Relayer
from payments.settling.transaction_rows import order_of
from policy.signer import local_signer
from tests.attacks.conftest import calldata_of
from tests.support.local_chain import Localnet
from tests.support.local_ids import LOCALNET
from tests.support.localnets import EVM
from tests.support.scenes import status_of


@pytest.fixture
def localnet() -> Localnet:
    return EVM


def sign_again(payment: Payment, amount: str) -> str:
    """Sign what a ledger would that does not know a payment any more, by both keys: the same key, the same id."""
    hashed = key_hash(bytes(Installation.objects.get().salt), payment.agent_id, str(payment.entry.idempotency_key))
    order = replace(
        order_of(payment), escrow_id=EVM.adapter.preparer.escrow_id("pay_anew", hashed), amount=Decimal(amount)
    )
    assert order.escrow_id == payment.escrow_id
    relayer = Relayer.objects.get(chain=LOCALNET, number=0)
    state = ChainState.objects.get(chain=LOCALNET).state
    submitter = Submitter(relayer.number, relayer.address, 0)
    return calldata_of(
        EVM.adapter.preparer.prepare(TransactionPlan.of_one(order, submitter, state, local_signer()), utc_now()).raw
    )


@pytest.mark.parametrize("amount", ["4.00", "5.00"], ids=["the same amount", "another amount"])
def test_a_key_is_not_paid_again_by_a_ledger_that_has_forgotten_it(real, thief, amount):
    payment = real("4.00")
    EVM.drain()

    is_paid = thief.include(thief.submit(sign_again(payment, amount)))

    assert not is_paid
    assert EVM.balance_of(Asset.USDC, payment.recipient) == 4_000_000
    assert status_of(payment) == PaymentStatus.SETTLED
