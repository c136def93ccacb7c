"""Keys of secp256k1: sign digests, and compute public points.

Which library does it, and why: docs/decisions/signing-library.md.
"""

from btclib_libsecp256k1 import keys, recovery

from foundation.kernel.secrecy import Secret

_BYTES = 32  # of a key, and of a digest


class SigningKey:
    """A secret key of 32 bytes, which no `repr` shows. Raises `ValueError` for what is none.

    The library copies the key into variables, which a debug page would show: it is given nothing on which it fails.
    """

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if len(secret) != _BYTES or not keys.prvkey_verify(secret):
            raise ValueError("This is no key of secp256k1.")
        self._secret = Secret(secret)

    def sign(self, digest: bytes) -> bytes:
        """Sign 32 bytes, with the nonce of RFC 6979 and the lower s.

        Returns:
            65 bytes: r, s, and the parity (0 or 1) of the point whose x is r.

        Raises:
            ValueError: it is no digest.
        """
        if not isinstance(digest, bytes) or len(digest) != _BYTES:  # type: ignore[redundant-expr]
            raise ValueError("A digest is 32 bytes.")
        signature, parity = recovery.sign(digest, self._secret)
        return signature + bytes([parity])

    @property
    def public_point(self) -> bytes:
        """The 64 bytes x, y of the public key."""
        return keys.pubkey_from_prvkey(self._secret, compressed=False)[1:]
