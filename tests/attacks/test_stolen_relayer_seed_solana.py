"""On Solana, too: what failed is not given back while the same message can be signed and sent once more."""

import base64

import pytest
from django.conf import settings
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from chains.solana.derivation import relayer_keypair
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Payment
from policy.models import Agent
from tests.payments.settling.test_closing_payees import UNITS, Payee, payee  # noqa: F401 - a fixture
from tests.support.ed25519 import sign_otherwise
from tests.support.localnets import SOLANA
from tests.support.scenes import state_of, status_of, transaction_of

pytestmark = pytest.mark.usefixtures("committed")


def sign_and_send_otherwise(payment: Payment) -> str:
    """Send the co-signed message under another signature of the relayer, as whoever has only that key can."""
    sent = VersionedTransaction.from_bytes(bytes(transaction_of(payment).raw))
    relayer, message = relayer_keypair(settings.RELAYER_SEED, 0), bytes(sent.message)
    other = Signature(sign_otherwise(bytes(relayer.secret()), bytes(relayer.pubkey()), message))
    forged = base64.b64encode(bytes(VersionedTransaction.populate(sent.message, [other, sent.signatures[1]]))).decode()
    SOLANA.rpc("sendTransaction", forged, {"encoding": "base64", "skipPreflight": True})
    for _ in range(3):
        SOLANA.mine()
    return str(other)


def test_a_payment_that_failed_is_not_given_back_before_what_was_signed_has_expired(payee, is_untroubled):  # noqa: F811
    assert payee.ask_for_payment()
    payee.settle_payments()
    SOLANA.observe()
    payee.close()
    assert payee.ask_before_the_watcher_looks()
    payment = payee.payments[-1]
    before = Agent.objects.get(pk=payment.agent_id).balance
    payee.include_payment()
    for _ in range(40):
        SOLANA.mine()
    SOLANA.follow()
    # It has failed in a final block, and its blockhash is still good.
    assert (state_of(payment), status_of(payment)) == (SettlementState.INCLUDED, PaymentStatus.APPROVED)

    payee.open()
    other = sign_and_send_otherwise(payment)
    SOLANA.drain()

    settled = status_of(payment) == PaymentStatus.SETTLED
    assert payee.held == (UNITS if settled else 0)
    assert Agent.objects.get(pk=payment.agent_id).balance == before + (0 if settled else payment.amount)
    assert settled == (SOLANA.find_block(other) is not None)
    assert SOLANA.final_height > (transaction_of(payment).valid_until_height or SOLANA.final_height - 1)
    assert is_untroubled(SOLANA.caip2)
