"""The transaction, proofs and finality that Solana nodes lie about."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

from solders.keypair import Keypair

from chains.port import Finality, Order, SignedTransaction, Submitter, TransactionPlan, TransactionQuery
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from policy.signer import LocalSigner
from tests.support.fake_nodes import Node
from tests.support.fake_solana_nodes import FINAL, HEIGHT, NEWEST, RELAYER, Truth, some_hash, tell
from tests.support.solana_vm import SEED, SIGNER_KEY

TURN = Submitter(0, str(RELAYER), None)
OLD = some_hash(6)
ORDER = Order("pay_" + "0" * 26, Asset.SOL, Decimal(1), str(Keypair().pubkey()))


def finality(final: int = FINAL, height: int = HEIGHT) -> Finality:
    return Finality(final, utc_now(), newest=NEWEST, height=height)


def sign(truth: Truth, order: Order = ORDER) -> SignedTransaction:
    """Sign a payment with what an honest node said when `OLD` was the newest blockhash."""
    node = Node()
    try:
        chain = tell([node], replace(truth, blockhash=OLD))
        return chain.preparer.prepare(
            TransactionPlan.of_one(
                order, TURN, chain.observer.observe(), LocalSigner(SEED[:32], SEED[32:], SIGNER_KEY)
            ),
            utc_now(),
        )
    finally:
        node.close()


def sought(truth: Truth, **changes: Any) -> TransactionQuery:
    """Look for a payment that was signed in slot 700, and good until height 850."""
    signed = sign(truth)
    return replace(TransactionQuery(signed.tx, signed.raw, TURN, [ORDER], None, "", 850, 700), **changes)
