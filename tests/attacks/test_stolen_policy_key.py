"""Who has only the policy signer's key pays nobody, voids nothing and stops nothing. On the real escrow."""

import pytest

from foundation.kernel.assets import Asset
from payments.lifecycle import PaymentStatus
from services.served_chains import configured_roles
from tests.attacks.conftest import seen_of
from tests.support.evm_escrow import token
from tests.support.local_chain import Localnet
from tests.support.localnets import EVM
from tests.support.scenes import status_of


@pytest.fixture
def localnet() -> Localnet:
    return EVM


def test_what_the_thief_has_signed_nobody_else_submits(real, policy_thief):
    payment = real("9.00")

    # Co-signed as it should be; and the thief would sign it for any amount.
    assert not policy_thief.include(policy_thief.submit(seen_of(payment)))

    assert EVM.balance_of(Asset.USDC, payment.recipient) == 0
    EVM.drain()
    assert status_of(payment) == PaymentStatus.SETTLED
    assert EVM.balance_of(Asset.USDC, payment.recipient) == 9_000_000


def test_the_thief_does_not_make_the_signers_account_refuse_its_own_signatures(real, policy_thief):
    # The call itself reverts: a token takes no plain call. The code stays.
    policy_thief.include(policy_thief.run_code(token()))
    try:
        assert EVM.rpc("eth_getCode", configured_roles().policy_signer, "latest").startswith("0xef0100")
        payment = real("6.00")
        EVM.drain()
    finally:
        policy_thief.include(policy_thief.run_code("0x" + "0" * 40))

    assert status_of(payment) == PaymentStatus.SETTLED
    assert EVM.balance_of(Asset.USDC, payment.recipient) == 6_000_000
