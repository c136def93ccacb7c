"""Derive the relayers' accounts from one seed, by path, and sign with their keys."""

from functools import lru_cache

from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from chains.evm.secp256k1 import SigningKey

_V = 27  # Ethereum's name for the first of the two points with the same x


@lru_cache(maxsize=1024)
def derive_account(seed: bytes, number: int) -> tuple[SigningKey, str]:
    """Derive a relayer's key and address by BIP-32 (path of BIP-44); takes milliseconds, so once per process."""
    from eth_account.hdaccount import key_from_seed  # noqa: PLC0415 - a quarter of a second that most processes save

    secret = key_from_seed(seed, f"m/44'/60'/0'/0/{number}")
    key = SigningKey(secret)
    return key, _address(key)


def address_of(key: bytes) -> str:
    """Return the address of a key's account, in its EIP-55 form."""
    return _address(SigningKey(key))


def sign_digest(key: SigningKey, digest: bytes) -> bytes:
    """Sign a 32-byte digest; returns 65 bytes, r, s, v with v 27 or 28."""
    signature = key.sign(digest)
    return signature[:64] + bytes([signature[64] + _V])


def _address(key: SigningKey) -> str:
    return str(to_checksum_address(keccak(key.public_point)[-20:]))
