"""Derive the relayers' accounts from one seed, by path.

`eth_account` does the same, but its import takes a third of the time of starting a process: it prepares BLS
signatures, which are not used here. A test compares the two.
"""

import hashlib
import hmac
from functools import lru_cache

from coincurve import PrivateKey
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

_HARDENED = 2**31
_KEY_BYTES = 32
_MASTER = b"Bitcoin seed"  # BIP-32
# BIP-44: purpose, Ethereum's coin, account, external chain. The relayer's number follows.
_PATH = (44 + _HARDENED, 60 + _HARDENED, _HARDENED, 0)


@lru_cache(maxsize=1024)
def derive_account(seed: bytes, number: int) -> tuple[PrivateKey, str]:
    """Derive a relayer's key and address by BIP-32 (path of BIP-44); once per process."""
    # Computed first: a frame that fails for a wrong number must not hold a secret.
    path = [(index, index.to_bytes(4, "big")) for index in (*_PATH, number)]
    digest = hmac.digest(_MASTER, seed, hashlib.sha512)
    key, code = PrivateKey(digest[:_KEY_BYTES]), digest[_KEY_BYTES:]
    for index, written in path:
        parent = b"\0" + key.secret if index >= _HARDENED else key.public_key.format()
        digest = hmac.digest(code, parent + written, hashlib.sha512)
        # The sum is taken modulo the group's order. A sum of 0 raises, and does not occur in practice.
        key, code = key.add(digest[:_KEY_BYTES]), digest[_KEY_BYTES:]
    return key, address_of(key.secret)


def address_of(key: bytes) -> str:
    """Return the address of a key's account."""
    public = PrivateKey(key).public_key.format(compressed=False)
    return str(to_checksum_address(keccak(public[1:])[-20:]))
