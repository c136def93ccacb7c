"""Raw transactions: decode them and check what can be known without the chain's state."""

import rlp
from eth.abc import SignedTransactionAPI
from eth.constants import CREATE_CONTRACT_ADDRESS, GAS_TX
from eth.exceptions import UnrecognizedTransactionType
from eth.vm.forks.prague import PragueVM
from eth.vm.forks.prague.constants import STANDARD_TOKEN_COST, TOTAL_COST_FLOOR_PER_TOKEN
from eth_keys.exceptions import BadSignature
from eth_utils.exceptions import ValidationError
from eth_utils.hexadecimal import encode_hex

from workshop.localnet.evm import CHAIN_ID
from workshop.localnet.evm.errors import Rejected
from workshop.localnet.evm.fees import max_fee, max_tip

BLOCK_GAS_LIMIT = 60_000_000  # as on Ethereum: room for hundreds of transfers
_MAX_INITCODE_BYTES = 49_152
_MAX_TRANSACTION_BYTES = 128 * 1024
_BLOB_TYPE = 3


def decode(raw: bytes) -> SignedTransactionAPI:
    """Decode a signed transaction and check everything that needs no state.

    Raises `Rejected` with the message a node gives: malformed, foreign chain, bad signature,
    too little gas for its own data, fees that contradict each other.
    """
    if len(raw) > _MAX_TRANSACTION_BYTES:
        raise Rejected(f"oversized data: transaction size {len(raw)}, limit 131072")
    try:
        transaction = PragueVM.get_transaction_builder().decode(raw)
        type_id = transaction.type_id or 0
        if type_id == _BLOB_TYPE:
            raise Rejected("transaction type not supported")
        _check_chain(transaction)
        _ = transaction.sender
        transaction.check_signature_validity()
    except UnrecognizedTransactionType as error:
        raise Rejected("transaction type not supported") from error
    except (BadSignature, ValidationError) as error:
        raise Rejected("invalid transaction v, r, s values") from error
    except (rlp.exceptions.RLPException, ValueError, TypeError, IndexError) as error:
        raise Rejected(f"rlp: cannot decode the transaction: {error}") from error
    _check_fees(transaction)
    return transaction


def intrinsic_gas(transaction: SignedTransactionAPI) -> int:
    """Return the gas that the transaction costs before any code runs, init code included."""
    gas: int = transaction.intrinsic_gas
    if transaction.to == CREATE_CONTRACT_ADDRESS:
        gas += 2 * ((len(transaction.data) + 31) // 32)  # EIP-3860
    return gas


def floor_gas(data: bytes) -> int:
    """Return the least gas that a transaction with this data pays for (EIP-7623)."""
    zeros = data.count(0)
    tokens = zeros + (len(data) - zeros) * STANDARD_TOKEN_COST
    return GAS_TX + TOTAL_COST_FLOOR_PER_TOKEN * tokens


def _check_chain(transaction: SignedTransactionAPI) -> None:
    chain_id = transaction.chain_id
    if chain_id is None:
        raise Rejected("only replay-protected (EIP-155) transactions allowed over RPC")
    if chain_id != CHAIN_ID:
        raise Rejected(f"invalid chain id for signer: have {chain_id} want {CHAIN_ID}")


def _check_fees(transaction: SignedTransactionAPI) -> None:
    if transaction.gas > BLOCK_GAS_LIMIT:
        raise Rejected("exceeds block gas limit")
    if max_tip(transaction) > max_fee(transaction):
        raise Rejected(
            f"max priority fee per gas higher than max fee per gas: "
            f"address {encode_hex(transaction.sender)}, "
            f"maxPriorityFeePerGas: {max_tip(transaction)}, maxFeePerGas: {max_fee(transaction)}"
        )
    is_creation = transaction.to == CREATE_CONTRACT_ADDRESS
    if is_creation and len(transaction.data) > _MAX_INITCODE_BYTES:
        raise Rejected(f"max initcode size exceeded: code size {len(transaction.data)} limit 49152")
    needed = intrinsic_gas(transaction)
    if transaction.gas < needed:
        raise Rejected(f"intrinsic gas too low: gas {transaction.gas}, minimum needed {needed}")
    floor = floor_gas(transaction.data)
    if transaction.gas < floor:
        raise Rejected(f"insufficient gas for floor data gas cost: gas {transaction.gas}, minimum needed {floor}")
