"""What the escrow contract is told: the authorisation that the policy signer signs, and the call. Pure.

The interface is `payments/contracts/Escrow.vy`. Its arguments are 32-byte words, so they are laid out here: a general
ABI encoder takes twenty times as long, under the agent's lock. Tests compare with one.
"""

from functools import lru_cache

from eth_utils.crypto import keccak

_DOMAIN_TYPE = keccak(text="EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")
_PAYMENT_TYPE = keccak(
    text="Payment(bytes32 paymentId,address token,address recipient,uint256 amount,uint256 deadline)"
)
_PAY = keccak(text="pay(bytes32,address,address,uint256,uint256,bytes)")[:4]
_SETTLED = keccak(text="settled(bytes32)")[:4]
_BALANCE_OF = keccak(text="balanceOf(address)")[:4]
_DOMAIN_NAME = keccak(text="Allowance Escrow")
_DOMAIN_VERSION = keccak(text="1")
_WORD = 32


def payment_words(payment_id: str, token: str, recipient: str, units: int, deadline: int) -> bytes:
    """Lay out the fields as the contract names them; `deadline` in seconds of chain time, `units` in base units.

    A payment id, `pay_` and 26 characters, is 30 ASCII bytes: it stands on chain as it is, padded with zeros.
    """
    return _text(payment_id) + _address(token) + _address(recipient) + _integer(units) + _integer(deadline)


def authorization_digest(chain_id: int, escrow: str, payment: bytes) -> bytes:
    """Compute the EIP-712 digest (32 bytes) that the policy signer signs for a payment's words."""
    return keccak(b"\x19\x01" + _domain_separator(chain_id, escrow) + keccak(_PAYMENT_TYPE + payment))


def pay_call(payment: bytes, policy_signature: bytes) -> bytes:
    """Encode the call of `pay`: the payment's words, where the signature begins, its length, itself."""
    start = _integer(len(payment) + _WORD)
    padding = bytes(-len(policy_signature) % _WORD)
    return _PAY + payment + start + _integer(len(policy_signature)) + policy_signature + padding


def settled_call(payment_id: str) -> bytes:
    """Encode the question whether a payment was made."""
    return _SETTLED + _text(payment_id)


def balance_call(owner: str) -> str:
    """Encode the question to a token what somebody holds, as hex."""
    return "0x" + (_BALANCE_OF + _address(owner)).hex()


@lru_cache
def _domain_separator(chain_id: int, escrow: str) -> bytes:
    return keccak(_DOMAIN_TYPE + _DOMAIN_NAME + _DOMAIN_VERSION + _integer(chain_id) + _address(escrow))


def _text(text: str) -> bytes:
    return text.encode("ascii").ljust(_WORD, b"\0")


def _address(address: str) -> bytes:
    return bytes.fromhex(address.removeprefix("0x")).rjust(_WORD, b"\0")


def _integer(value: int) -> bytes:
    return value.to_bytes(_WORD, "big")
