"""The relayers' accounts: derived from one seed, by path, where they are needed.

`eth_account` does the same, but its import takes a third of the time in which a process starts: it prepares for BLS
signatures, which nothing here makes. A test compares the two.
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
# BIP-44: purpose, Ethereum's coin, account, external chain. The relayer's number comes behind.
_PATH = (44 + _HARDENED, 60 + _HARDENED, _HARDENED, 0)


@lru_cache(maxsize=1024)
def derive_account(seed: bytes, number: int) -> tuple[PrivateKey, str]:
    """Derive a relayer's key and address by BIP-32 (path of BIP-44); once per process."""
    # First: nothing that is secret may stand in a frame that fails for a wrong number.
    path = [(index, index.to_bytes(4, "big")) for index in (*_PATH, number)]
    digest = hmac.digest(_MASTER, seed, hashlib.sha512)
    key, code = PrivateKey(digest[:_KEY_BYTES]), digest[_KEY_BYTES:]
    for index, written in path:
        parent = b"\0" + key.secret if index >= _HARDENED else key.public_key.format()
        digest = hmac.digest(code, parent + written, hashlib.sha512)
        # The sum is taken modulo the group's order; one that is 0 is refused, and never met.
        key, code = key.add(digest[:_KEY_BYTES]), digest[_KEY_BYTES:]
    return key, address_of(key.secret)


def address_of(key: bytes) -> str:
    """Tell which account a key is of."""
    public = PrivateKey(key).public_key.format(compressed=False)
    return str(to_checksum_address(keccak(public[1:])[-20:]))
