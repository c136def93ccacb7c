"""Encode the escrow's calls, and the authorisations that the policy signer signs. Pure.

The interface is `chains/contracts/Escrow.sol`. Its arguments are 32-byte words, and are encoded by hand: a general ABI
encoder takes twenty times as long, under the agent's lock. Tests compare with one.
"""

from collections.abc import Sequence
from functools import lru_cache

from eth_utils.crypto import keccak

_DOMAIN_TYPE = keccak(text="EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")
_PAYMENT_TYPE = keccak(
    text="Payment(bytes32 paymentId,address token,address recipient,uint256 amount,uint256 deadline)"
)
_ITEM = "Payment(bytes32 paymentId,address token,address recipient,uint256 amount)"
_ITEM_TYPE = keccak(text=_ITEM)
_BATCH_TYPE = keccak(text=f"Batch(Payment[] payments,uint256 deadline){_ITEM}")
_VOID_TYPE = keccak(text="Void(bytes32 paymentId)")
_TRANSFER_TYPE = keccak(
    text="TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,"
    "bytes32 nonce)"
)
_PAY = keccak(text="pay(bytes32,address,address,uint256,uint256,bytes)")[:4]
_PAY_MANY = keccak(text="payMany((bytes32,address,address,uint256)[],uint256,bytes)")[:4]
_VOID = keccak(text="void(bytes32,bytes)")[:4]
_STATUS = keccak(text="status(bytes32)")[:4]
_STATUSES = keccak(text="statuses(bytes32[])")[:4]
_AUTHORIZATION_STATE = keccak(text="authorizationState(address,bytes32)")[:4]
_AUTHORIZATION_LIMITS = keccak(text="authorizationLimits(address)")[:4]
_BALANCE_OF = keccak(text="balanceOf(address)")[:4]
_DOMAIN = ("Allowance Escrow", "1")
_WORD = 32


def payment_words(escrow_id: str, token: str, recipient: str, units: int, deadline: int) -> bytes:
    """Encode the fields in the contract's order; `deadline` in seconds of chain time, `units` in base units.

    `escrow_id` is `0x` and 64 hex digits; the contract calls it paymentId.
    """
    return _id(escrow_id) + _address(token) + _address(recipient) + _integer(units) + _integer(deadline)


def payment_digest(chain_id: int, escrow: str, payment: bytes) -> bytes:
    """Compute the EIP-712 digest (32 bytes) that the policy signer signs for a payment's words."""
    return _digest(chain_id, escrow, _PAYMENT_TYPE + payment)


def pay_call(payment: bytes, policy_signature: bytes) -> bytes:
    """Encode the call of `pay`: the payment's words, then the signature's offset, its length and its bytes."""
    return _PAY + payment + _after(payment, policy_signature)


def listed_payment_words(escrow_id: str, token: str, recipient: str, units: int) -> bytes:
    """Encode a payment of a list, as `payment_words` a lone one: its deadline is the list's."""
    return _id(escrow_id) + _address(token) + _address(recipient) + _integer(units)


def batch_digest(chain_id: int, escrow: str, payments: Sequence[bytes], deadline: int) -> bytes:
    """Compute the EIP-712 digest (32 bytes) that the policy signer signs for a list of payments' words."""
    hashes = keccak(b"".join(keccak(_ITEM_TYPE + words) for words in payments))
    return _digest(chain_id, escrow, _BATCH_TYPE + hashes + _integer(deadline))


def pay_many_call(payments: Sequence[bytes], deadline: int, policy_signature: bytes) -> bytes:
    """Encode the call of `payMany`: where the list stands, the deadline, where the signature stands; then both."""
    head_bytes = 3 * _WORD
    listed = _list(payments)
    head = _integer(head_bytes) + _integer(deadline) + _integer(head_bytes + len(listed))
    return _PAY_MANY + head + listed + _bytes(policy_signature)


def void_words(escrow_id: str) -> bytes:
    """Encode the fields of a void in the contract's order: the id alone."""
    return _id(escrow_id)


def void_digest(chain_id: int, escrow: str, void: bytes) -> bytes:
    """Compute the EIP-712 digest (32 bytes) that the policy signer signs to void an id."""
    return _digest(chain_id, escrow, _VOID_TYPE + void)


def void_call(void: bytes, policy_signature: bytes) -> bytes:
    """Encode the call of `void`, in the form of `pay`."""
    return _VOID + void + _after(void, policy_signature)


def status_call(escrow_id: str) -> bytes:
    """Encode the call that reads the status of a payment: 0 neither paid nor void, 1 paid, 2 void."""
    return _STATUS + _id(escrow_id)


def statuses_call(escrow_ids: Sequence[str]) -> bytes:
    """Encode the call that reads the statuses of many payments, in this order: each is one as of `status_call`."""
    return _STATUSES + _integer(_WORD) + _list([_id(one) for one in escrow_ids])


@lru_cache
def domain_separator(name: str, version: str, chain_id: int, contract: str) -> bytes:
    """Compute the separator (32 bytes) of an EIP-712 domain with these four fields."""
    hashed = keccak(text=name) + keccak(text=version)
    return keccak(_DOMAIN_TYPE + hashed + _integer(chain_id) + _address(contract))


def transfer_words(token: str, recipient: str, units: int, valid_before: int, nonce: str) -> bytes:
    """Encode an authorization (EIP-3009) that is valid at once, in the order in which the escrow reads it."""
    return _address(token) + _address(recipient) + _integer(units) + _integer(0) + _integer(valid_before) + _id(nonce)


def transfer_digest(separator: bytes, escrow: str, transfer: bytes) -> bytes:
    """Compute the digest (32 bytes) that both keys sign, in the token's domain; its payer is the escrow."""
    return _digest_of(separator, _TRANSFER_TYPE + _address(escrow) + transfer[_WORD:])


def authorization_state_call(escrow: str, nonce: str) -> bytes:
    """Encode the call that reads from a token whether an authorization of the escrow was used: 0 or 1."""
    return _AUTHORIZATION_STATE + _address(escrow) + _id(nonce)


def authorization_limits_call(token: str) -> bytes:
    """Encode the call that reads from the escrow what payees may take of a token, and whether the owner ever set it."""
    return _AUTHORIZATION_LIMITS + _address(token)


def balance_call(owner: str) -> str:
    """Encode the call that reads the balance of an address from a token, as hex."""
    return "0x" + (_BALANCE_OF + _address(owner)).hex()


def _after(words: bytes, signature: bytes) -> bytes:
    """Encode a signature behind the words of a call: its offset, its length, its bytes."""
    return _integer(len(words) + _WORD) + _bytes(signature)


def _bytes(value: bytes) -> bytes:
    return _integer(len(value)) + value + bytes(-len(value) % _WORD)


def _list(items: Sequence[bytes]) -> bytes:
    """Encode a list whose items are words."""
    return _integer(len(items)) + b"".join(items)


def _digest(chain_id: int, escrow: str, typed: bytes) -> bytes:
    return _digest_of(domain_separator(*_DOMAIN, chain_id, escrow), typed)


def _digest_of(separator: bytes, typed: bytes) -> bytes:
    return keccak(b"\x19\x01" + separator + keccak(typed))


def _id(escrow_id: str) -> bytes:
    return bytes.fromhex(escrow_id.removeprefix("0x"))


def _address(address: str) -> bytes:
    return bytes.fromhex(address.removeprefix("0x")).rjust(_WORD, b"\0")


def _integer(value: int) -> bytes:
    return value.to_bytes(_WORD, "big")
