"""Thieves and restored backups on the embedded chains pay nothing twice."""

import base64
import time
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import transaction
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from chains.solana.derivation import relayer_keypair
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import DepositCursor, Payment, Settlement
from tests.payments.settling.test_settlement import has, let_expire, on_solana
from tests.support.ed25519 import sign_otherwise
from tests.support.fake_chain import PATIENCE_S
from tests.support.histories import tamper
from tests.support.local_chain import Localnet
from tests.support.localnets import SOLANA
from tests.support.scenes import status_of, transaction_of, transactions_of

S = SettlementState


def forge(payment: Payment) -> str:
    """Land a payment as whoever has the relayer's key, and no other, can: by another signature, under another id."""
    sent = VersionedTransaction.from_bytes(bytes(transaction_of(payment).raw))
    relayer, message = relayer_keypair(settings.RELAYER_SEED, 0), bytes(sent.message)
    other = Signature(sign_otherwise(bytes(relayer.secret()), bytes(relayer.pubkey()), message))
    assert other.verify(relayer.pubkey(), message)
    forged = VersionedTransaction.populate(sent.message, [other, sent.signatures[1]])
    SOLANA.rpc(
        "sendTransaction", base64.b64encode(bytes(forged)).decode(), {"encoding": "base64", "skipPreflight": True}
    )
    deadline = time.monotonic() + PATIENCE_S
    while SOLANA.find_block(str(other)) is None:
        assert time.monotonic() < deadline, "no block takes it"
        SOLANA.mine()
    return str(other)


def has_paid(localnet: Localnet, payment: Payment) -> bool:
    """Tell whether a payment is settled and its payee has its money once, however long one waits."""
    for _ in range(3):
        localnet.drain()
        localnet.mine()
        localnet.observe()
    is_settled = status_of(payment) == PaymentStatus.SETTLED
    return is_settled and has(localnet, payment) == int(payment.amount.scaleb(Asset(payment.asset).decimals))


@on_solana
@pytest.mark.parametrize("asset", [Asset.SOL, Asset.USDC, Asset.PYUSD])
def test_a_stolen_relayer_key_alone_does_not_let_a_payment_be_paid_twice(real, localnet, asset):
    payment = real("1.25", asset=asset)

    other = forge(payment)
    localnet.send()
    let_expire(payment)

    assert has_paid(localnet, payment)
    ours, theirs = transactions_of(payment)
    assert (ours.state, theirs.state, theirs.tx) == (S.REPLACED, S.FINAL, other)


@on_solana
def test_a_restored_database_does_not_pay_again_what_was_signed_after_its_backup(real, localnet):
    payment = real("0.75")
    searched = DepositCursor.objects.get(chain=localnet.caip2).block_number
    let_expire(payment)
    assert localnet.follow() == 1
    old, new = transactions_of(payment)
    localnet.include(payment)

    # As it was before it was signed again.
    with transaction.atomic():
        tamper("DELETE FROM payments_transition WHERE settlement_id IN (%s, %s)", old.pk, new.pk)
        tamper("DELETE FROM payments_leg WHERE tx = %s", new.pk)
        tamper("DELETE FROM payments_settlement WHERE tx = %s", new.pk)
    Settlement.objects.filter(pk=old.pk).update(state=S.BROADCAST)
    an_hour_ago = utc_now() - timedelta(hours=1)
    DepositCursor.objects.filter(chain=localnet.caip2).update(block_number=searched, moved_at=an_hour_ago)

    assert has_paid(localnet, payment)
    assert [(one.tx, one.state) for one in transactions_of(payment)] == [(old.tx, S.REPLACED), (new.tx, S.FINAL)]
