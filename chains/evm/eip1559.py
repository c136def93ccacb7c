"""Sign EIP-1559 transactions. Pure.

`eth_account` does the same in ten times the time, most of it for checks of its caller. This runs on the money path,
under the agent's lock; a test compares the two byte for byte.
"""

from dataclasses import dataclass

import rlp
from eth_utils.crypto import keccak

from chains.evm.secp256k1 import SigningKey

_TYPE = b"\x02"
_SHORT = 55  # RLP: up to this number of bytes, the length fits into the first byte
_STRING, _LIST = 0x80, 0xC0
_EMPTY_LIST = bytes([_LIST])


@dataclass(frozen=True, slots=True)
class Fees:
    """The limits of a transaction's cost: gas units, and wei per unit."""

    gas: int
    max_fee_per_gas: int
    max_priority_fee_per_gas: int


def sign_call(
    key: SigningKey, *, chain_id: int, nonce: int, to: bytes, data: bytes, fees: Fees, value: int = 0
) -> tuple[str, bytes]:
    """Sign a call, with a `value` in wei; returns its hash (`0x` and 64 hex digits) and its bytes."""
    numbers = (chain_id, nonce, fees.max_priority_fee_per_gas, fees.max_fee_per_gas, fees.gas)
    fields = b"".join((*map(_integer, numbers), _string(to), _integer(value), _string(data), _EMPTY_LIST))
    signature = key.sign(keccak(_TYPE + _list(fields)))
    parity, r, s = signature[64], int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:64], "big")
    raw = _TYPE + _list(fields + _integer(parity) + _integer(r) + _integer(s))
    return f"0x{keccak(raw).hex()}", raw


def read_call(raw: bytes) -> tuple[bytes, bytes, Fees]:
    """Read back what `sign_call` signed: to, data, fees."""
    _chain_id, _nonce, tip, max_fee, gas, to, _value, data, *_ = rlp.decode(raw.removeprefix(_TYPE))
    return to, data, Fees(*(int.from_bytes(number, "big") for number in (gas, max_fee, tip)))


def _integer(value: int) -> bytes:
    return _string(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def _string(data: bytes) -> bytes:
    if len(data) == 1 and data[0] < _STRING:
        return data
    return _length(len(data), _STRING) + data


def _list(items: bytes) -> bytes:
    return _length(len(items), _LIST) + items


def _length(length: int, kind: int) -> bytes:
    if length <= _SHORT:
        return bytes([kind + length])
    written = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([kind + _SHORT + len(written)]) + written
