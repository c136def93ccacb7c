"""The interface of the policy signer that chains use."""

from typing import Protocol


class SignerUnavailable(Exception):
    """Raise when the signer cannot be reached or refuses to sign: nothing may be paid."""


class PaymentSigner(Protocol):
    """Signs payments in the form that a chain requires.

    Every method raises `SignerUnavailable` if it cannot sign.
    """

    def cosign_digest(self, digest: bytes) -> bytes:
        """Sign a 32-byte EIP-712 digest; returns 65 bytes, r, s, v with v 27 or 28."""

    @property
    def solana_address(self) -> bytes:
        """The 32-byte public key that payments on Solana are co-signed with."""

    def cosign_message(self, message: bytes) -> bytes:
        """Sign the message of a Solana transaction; returns 64 bytes of Ed25519."""
