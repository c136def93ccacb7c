"""Calls that leave no trace: `eth_call` and `eth_estimateGas`."""

from dataclasses import dataclass
from typing import cast

from eth.abc import BlockHeaderAPI, ComputationAPI, SignedTransactionAPI
from eth.exceptions import Revert
from eth.vm.forks.prague import PragueVM
from eth.vm.forks.prague.transactions import PragueTransactionBuilder
from eth.vm.spoof import SpoofTransaction
from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError
from eth_typing import Address
from eth_utils.exceptions import ValidationError
from eth_utils.hexadecimal import encode_hex

from workshop.localnet.evm import CHAIN_ID
from workshop.localnet.evm.chain import LocalChain
from workshop.localnet.evm.errors import ExecutionReverted, Rejected
from workshop.localnet.evm.transactions import BLOCK_GAS_LIMIT, floor_gas

_ERROR_SELECTOR = bytes.fromhex("08c379a0")  # Error(string)
_PANIC_SELECTOR = bytes.fromhex("4e487b71")  # Panic(uint256)
_STIPEND = 2_300
# As geth: an estimate may be this much higher than what is needed.
_ESTIMATE_TOLERANCE = 0.015


@dataclass(frozen=True, kw_only=True)
class Call:
    """A transaction that nobody signed. `value_wei` in wei; an empty `to` creates a contract."""

    sender: Address
    to: Address
    data: bytes
    value_wei: int
    gas: int | None


def call(chain: LocalChain, header: BlockHeaderAPI, request: Call) -> bytes:
    """Return what the call returns on the state after a block.

    Raises `ExecutionReverted` with the contract's reason, `Rejected` for everything else.
    """
    result = _run(chain, header, request, min(request.gas or BLOCK_GAS_LIMIT, BLOCK_GAS_LIMIT))
    _raise_failure(result)
    return bytes(result.output)


def estimate_gas(chain: LocalChain, header: BlockHeaderAPI, request: Call) -> int:
    """Return a gas limit, at most 1.5 % above the least, with which the call succeeds.

    Raises like `call` if it fails with all the gas of a block.
    """
    most = min(request.gas or BLOCK_GAS_LIMIT, BLOCK_GAS_LIMIT)
    result = _run(chain, header, request, most)
    _raise_failure(result)
    remaining = result.get_gas_remaining()
    used = max(_used(result, most), floor_gas(request.data))
    if not _fails(chain, header, request, used):
        return used
    # Refunds come after the gas was needed; and a call never gets the last 64th.
    least = used
    # Enough, unless code hides gas: a call passes on all but one 64th of its gas.
    guess = (most - remaining + _STIPEND) * 64 // 63
    if guess < most and not _fails(chain, header, request, guess):
        most = guess
    while (most - least) / most > _ESTIMATE_TOLERANCE:
        middle = (most + least) // 2
        if _fails(chain, header, request, middle):
            least = middle
        else:
            most = middle
    return most


def _used(result: ComputationAPI, gas: int) -> int:
    consumed = gas - result.get_gas_remaining()
    return consumed - PragueVM.calculate_net_gas_refund(consumed, result.get_gas_refund())


def _fails(chain: LocalChain, header: BlockHeaderAPI, request: Call, gas: int) -> bool:
    try:
        return _run(chain, header, request, gas).is_error
    except Rejected:
        return True


def _run(chain: LocalChain, header: BlockHeaderAPI, request: Call, gas: int) -> ComputationAPI:
    # A call costs nothing, as in a real node when no fee is given: hence the base fee of zero.
    state = chain.state(header, base_fee_wei=0)
    unsigned = PragueTransactionBuilder.new_unsigned_dynamic_fee_transaction(
        chain_id=CHAIN_ID,
        nonce=state.get_nonce(request.sender),
        max_priority_fee_per_gas=0,
        max_fee_per_gas=0,
        gas=gas,
        to=request.to,
        value=request.value_wei,
        data=request.data,
        access_list=(),
    )
    if gas < unsigned.intrinsic_gas:
        raise Rejected(f"intrinsic gas too low: gas {gas}, minimum needed {unsigned.intrinsic_gas}")
    balance_wei = state.get_balance(request.sender)
    if balance_wei < request.value_wei:
        raise Rejected(
            "insufficient funds for gas * price + value: "
            f"address {encode_hex(request.sender)} have {balance_wei} want {request.value_wei}"
        )
    # As signed by the sender. The values are none that a check of py-evm would refuse.
    spoofed = SpoofTransaction(unsigned, from_=request.sender, check_signature_validity=lambda: None)
    try:
        return state.apply_transaction(cast("SignedTransactionAPI", spoofed))
    except ValidationError as error:
        raise Rejected(f"err: {error}") from error


def _raise_failure(result: ComputationAPI) -> None:
    if not result.is_error:
        return
    if not isinstance(result.error, Revert):
        raise Rejected(f"{type(result.error).__name__}: {result.error}")
    data = bytes(result.output)
    reason = _reason(data)
    message = f"execution reverted: {reason}" if reason else "execution reverted"
    raise ExecutionReverted(message, data=encode_hex(data))


def _reason(data: bytes) -> str:
    try:
        if data.startswith(_ERROR_SELECTOR):
            return str(decode(["string"], data[4:])[0])
        if data.startswith(_PANIC_SELECTOR):
            return f"panic: 0x{decode(['uint256'], data[4:])[0]:02x}"
    except (DecodingError, UnicodeDecodeError):
        pass
    return ""
