"""What the policy signer signs (EIP-712), written down once more: the contract must have the same."""

from dataclasses import dataclass

PAYMENT_TYPE = {
    "Payment": [
        {"name": "paymentId", "type": "bytes32"},
        {"name": "token", "type": "address"},
        {"name": "recipient", "type": "address"},
        {"name": "amount", "type": "uint256"},
        {"name": "deadline", "type": "uint256"},
    ]
}
BATCH_TYPE = {
    "Batch": [{"name": "payments", "type": "Payment[]"}, {"name": "deadline", "type": "uint256"}],
    "Payment": PAYMENT_TYPE["Payment"][:-1],
}
VOID_TYPE = {"Void": [{"name": "paymentId", "type": "bytes32"}]}
# What a token asks for (EIP-3009), in its own domain.
AUTHORIZATION_TYPE = {
    "TransferWithAuthorization": [
        {"name": "from", "type": "address"},
        {"name": "to", "type": "address"},
        {"name": "value", "type": "uint256"},
        {"name": "validAfter", "type": "uint256"},
        {"name": "validBefore", "type": "uint256"},
        {"name": "nonce", "type": "bytes32"},
    ]
}


@dataclass(frozen=True)
class Payment:
    """What the policy signer signs, in the contract's order. In a list, the deadline is the list's."""

    id: bytes
    token: str
    recipient: str
    amount: int
    deadline: int


def payment_id(number: int) -> bytes:
    """Return `pay_` and 26 characters as the contract sees them: ASCII, zeros on the right."""
    return f"pay_{number:026}".encode().ljust(32, b"\0")
