"""The secrets of a local installation, chosen once, and the addresses of contracts that follow from them."""

import os
import secrets
from contextlib import suppress

from workshop.localnet.folder import Folder

TOKENS = ("USDC", "USDT", "PYUSD", "EURC")
_NAMES = {
    "SECRET_KEY",
    "POLICY_SIGNER_ED25519_KEY",
    "POLICY_SIGNER_SECP256K1_KEY",
    "POLICY_SIGNER_SOLANA_KEY",
    "RELAYER_SEED",
    "WEBHOOK_SIGNING_KEY",
    "WEBHOOK_SECRETS_KEY",
    "SOLANA_OWNER_KEY",
    "EVM_DEPLOYER_KEY",
    "EVM_ESCROW",
    "EVM_TOKENS",
}


def keys_of(folder: Folder) -> dict[str, str]:
    """Return the secrets of an installation and what follows from them, by name; choose them on first use."""
    return folder.choose_keys(_NAMES, _choose)


def key_in_use(keys: dict[str, str], name: str) -> bytes:
    """Return a key from the environment, or our own if the environment has none that fits."""
    own = bytes.fromhex(keys[name])
    with suppress(ValueError):
        given = bytes.fromhex(os.environ.get(name, "").removeprefix("0x"))
        if len(given) == len(own):
            return given
    # The settings refuse a variable that is no key.
    return own


def _choose() -> dict[str, str]:
    # Once in the life of an installation: other processes save the time that these take.
    import rlp  # noqa: PLC0415 - as above
    from eth_keys.datatypes import PrivateKey  # noqa: PLC0415 - as above
    from eth_utils.address import to_checksum_address  # noqa: PLC0415 - as above
    from eth_utils.crypto import keccak  # noqa: PLC0415 - as above

    # 32 random bytes are no secp256k1 key once in 2 ** 128 installations.
    deployer = secrets.token_bytes(32)
    owner = PrivateKey(deployer).public_key.to_canonical_address()
    # Deployed with the nonces 0 to 3 and 4: the addresses follow from the deployer's key alone.
    contracts = [to_checksum_address(keccak(rlp.encode([owner, nonce]))[12:]) for nonce in range(len(TOKENS) + 1)]
    tokens = ",".join(f"{name}={one}" for name, one in zip(TOKENS, contracts, strict=False))
    return {
        "SECRET_KEY": secrets.token_urlsafe(48),
        "POLICY_SIGNER_ED25519_KEY": secrets.token_hex(32),
        "POLICY_SIGNER_SECP256K1_KEY": secrets.token_hex(32),
        "POLICY_SIGNER_SOLANA_KEY": secrets.token_hex(32),
        "RELAYER_SEED": secrets.token_hex(64),
        "WEBHOOK_SIGNING_KEY": secrets.token_hex(32),
        "WEBHOOK_SECRETS_KEY": secrets.token_hex(32),
        "SOLANA_OWNER_KEY": secrets.token_hex(32),
        "EVM_DEPLOYER_KEY": deployer.hex(),
        "EVM_ESCROW": contracts[-1],
        "EVM_TOKENS": tokens,
    }
