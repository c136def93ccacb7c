"""What the escrow contract is told: the authorisation that the policy signer signs, and the call. Pure.

The interface is `payments/contracts/Escrow.vy`.
"""

from functools import lru_cache

from eth_abi import encode
from eth_utils.crypto import keccak

_DOMAIN_TYPE = keccak(text="EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")
_PAYMENT_TYPE = keccak(
    text="Payment(bytes32 paymentId,address token,address recipient,uint256 amount,uint256 deadline)"
)
_PAY = keccak(text="pay(bytes32,address,address,uint256,uint256,bytes)")[:4]
_SETTLED = keccak(text="settled(bytes32)")[:4]
_PAYMENT_FIELDS = ("bytes32", "address", "address", "uint256", "uint256")
_DOMAIN_NAME = keccak(text="Allowance Escrow")
_DOMAIN_VERSION = keccak(text="1")

PaymentFields = tuple[bytes, str, str, int, int]


def payment_fields(payment_id: str, token: str, recipient: str, units: int, deadline: int) -> PaymentFields:
    """Order the fields as the contract names them; `deadline` in seconds of chain time, `units` in base units.

    A payment id, `pay_` and 26 characters, is 30 ASCII bytes: it stands on chain as it is, padded with zeros.
    """
    return (_on_chain_id(payment_id), token, recipient, units, deadline)


def authorization_digest(chain_id: int, escrow: str, fields: PaymentFields) -> bytes:
    """Compute the EIP-712 digest (32 bytes) that the policy signer signs."""
    struct = keccak(encode(("bytes32", *_PAYMENT_FIELDS), (_PAYMENT_TYPE, *fields)))
    return keccak(b"\x19\x01" + _domain_separator(chain_id, escrow) + struct)


def pay_call(fields: PaymentFields, policy_signature: bytes) -> bytes:
    """Encode the call of `pay`."""
    return _PAY + encode((*_PAYMENT_FIELDS, "bytes"), (*fields, policy_signature))


def settled_call(payment_id: str) -> bytes:
    """Encode the question whether a payment was made."""
    return _SETTLED + _on_chain_id(payment_id)


def _on_chain_id(payment_id: str) -> bytes:
    return payment_id.encode("ascii").ljust(32, b"\0")


@lru_cache
def _domain_separator(chain_id: int, escrow: str) -> bytes:
    return keccak(
        encode(
            ("bytes32", "bytes32", "bytes32", "uint256", "address"),
            (_DOMAIN_TYPE, _DOMAIN_NAME, _DOMAIN_VERSION, chain_id, escrow),
        )
    )
