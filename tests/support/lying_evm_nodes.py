"""The transaction, block and finality that EVM nodes lie about."""

from chains.evm.eip1559 import Fees, sign_call
from chains.evm.secp256k1 import SigningKey
from chains.port import Finality, Submitter, TransactionQuery
from foundation.kernel.times import utc_now
from tests.support.fake_nodes import ESCROW, Truth, hash_of

TX = "0x" + "ab" * 32
FINAL = 10
RAW = sign_call(
    SigningKey(b"\1" * 32), chain_id=1, nonce=0, to=bytes.fromhex(ESCROW[2:]), data=b"", fees=Fees(1, 1, 1)
)[1]


def finality() -> Finality:
    return Finality(FINAL, utc_now(), newest=FINAL + 2)


def sought(truth: Truth, block_number: int | None = None) -> TransactionQuery:
    return TransactionQuery(
        truth.tx, RAW, Submitter(0, "0xrelayer", 0), [truth.order], block_number, hash_of(block_number or 0)
    )
