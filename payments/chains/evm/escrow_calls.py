"""What the escrow contract is told: the authorisation that the policy signer signs, and the call. Pure.

The interface is `payments/contracts/Escrow.sol`. Its arguments are 32-byte words, so they are laid out here: a general
ABI encoder takes twenty times as long, under the agent's lock. Tests compare with one.
"""

from functools import lru_cache

from eth_utils.crypto import keccak

_DOMAIN_TYPE = keccak(text="EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")
_PAYMENT_TYPE = keccak(
    text="Payment(bytes32 paymentId,address token,address recipient,uint256 amount,uint256 deadline)"
)
_PAY = keccak(text="pay(bytes32,address,address,uint256,uint256,bytes)")[:4]
_VOID_TYPE = keccak(text="Void(bytes32 paymentId)")
_VOID = keccak(text="void(bytes32,bytes)")[:4]
_STATUS = keccak(text="status(bytes32)")[:4]
_BALANCE_OF = keccak(text="balanceOf(address)")[:4]
_DOMAIN_NAME = keccak(text="Allowance Escrow")
_DOMAIN_VERSION = keccak(text="1")
_WORD = 32


def payment_words(escrow_id: str, token: str, recipient: str, units: int, deadline: int) -> bytes:
    """Lay out the fields as the contract names them; `deadline` in seconds of chain time, `units` in base units.

    `escrow_id` is `0x` and 64 hex digits; the contract calls it paymentId.
    """
    return _id(escrow_id) + _address(token) + _address(recipient) + _integer(units) + _integer(deadline)


def authorization_digest(chain_id: int, escrow: str, payment: bytes) -> bytes:
    """Compute the EIP-712 digest (32 bytes) that the policy signer signs for a payment's words."""
    return _digest(chain_id, escrow, _PAYMENT_TYPE + payment)


def void_digest(chain_id: int, escrow: str, escrow_id: str) -> bytes:
    """Compute the EIP-712 digest (32 bytes) that the policy signer signs to have an id marked as used."""
    return _digest(chain_id, escrow, _VOID_TYPE + _id(escrow_id))


def pay_call(payment: bytes, policy_signature: bytes) -> bytes:
    """Encode the call of `pay`: the payment's words, where the signature begins, its length, itself."""
    return _PAY + _with_bytes(payment, policy_signature)


def void_call(escrow_id: str, policy_signature: bytes) -> bytes:
    """Encode the call of `void`."""
    return _VOID + _with_bytes(_id(escrow_id), policy_signature)


def status_call(escrow_id: str) -> bytes:
    """Encode the question whether an id is free (0), paid (1) or void (2)."""
    return _STATUS + _id(escrow_id)


def balance_call(owner: str) -> str:
    """Encode the question to a token what somebody holds, as hex."""
    return "0x" + (_BALANCE_OF + _address(owner)).hex()


@lru_cache
def _domain_separator(chain_id: int, escrow: str) -> bytes:
    return keccak(_DOMAIN_TYPE + _DOMAIN_NAME + _DOMAIN_VERSION + _integer(chain_id) + _address(escrow))


def _digest(chain_id: int, escrow: str, struct: bytes) -> bytes:
    return keccak(b"\x19\x01" + _domain_separator(chain_id, escrow) + keccak(struct))


def _with_bytes(words: bytes, data: bytes) -> bytes:
    """Lay out arguments of which the last is bytes: the words, where the bytes begin, their length, themselves."""
    padding = bytes(-len(data) % _WORD)
    return words + _integer(len(words) + _WORD) + _integer(len(data)) + data + padding


def _id(escrow_id: str) -> bytes:
    return bytes.fromhex(escrow_id.removeprefix("0x")).rjust(_WORD, b"\0")


def _address(address: str) -> bytes:
    return bytes.fromhex(address.removeprefix("0x")).rjust(_WORD, b"\0")


def _integer(value: int) -> bytes:
    return value.to_bytes(_WORD, "big")
