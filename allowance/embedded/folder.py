"""The data folder: where it is, whose it is, and the secrets and ports that are chosen once."""

import fcntl
import json
import os
import random
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import rlp
from eth_keys.datatypes import PrivateKey
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from allowance.embedded.errors import EmbeddedError

ROOT = Path(__file__).resolve().parents[2]
TOKENS = ("USDC", "USDT", "PYUSD", "EURC")
_NAMES = {
    "SECRET_KEY",
    "POLICY_SIGNER_ED25519_KEY",
    "POLICY_SIGNER_SECP256K1_KEY",
    "POLICY_SIGNER_SOLANA_KEY",
    "RELAYER_SEED",
    "WEBHOOK_SECRETS_KEY",
    "REDIS_PASSWORD",
    "SOLANA_OWNER_KEY",
    "EVM_DEPLOYER_KEY",
    "EVM_ESCROW",
    "EVM_TOKENS",
}
# Below what Linux and macOS hand out to outgoing connections.
_PORTS = range(20_000, 32_000)
_NOBODY = 65_534


@dataclass(frozen=True)
class Folder:
    """One local installation. Everything it has lies below `path`."""

    path: Path

    @property
    def keys_file(self) -> Path:
        """The secrets, readable by their owner alone."""
        return self.path / "keys.json"

    @property
    def ports_file(self) -> Path:
        """The TCP ports by name."""
        return self.path / "ports.json"

    def keys(self) -> dict[str, str]:
        """Return the secrets and what follows from them; choose on first use those that are missing."""
        keys = self._known_keys()
        if not keys.keys() >= _NAMES:
            with locked(self.path / "keys.lock"):
                # What an older version chose stays as it is.
                keys = _new_keys() | self._known_keys()
                _write(self.keys_file, keys)
        return keys

    def _known_keys(self) -> dict[str, str]:
        if not self.keys_file.exists():
            return {}
        return cast("dict[str, str]", json.loads(self.keys_file.read_text()))

    def port(self, name: str) -> int:
        """Return the TCP port of a server; choose it on first use."""
        if name not in self._ports():
            return self.new_port(name)
        return self._ports()[name]

    def new_port(self, name: str) -> int:
        """Choose a free port for a server and remember it."""
        with locked(self.path / "keys.lock"):
            ports = self._ports()
            others = set(ports.values())
            # Chance keeps two installations apart that are both not running.
            candidates = random.sample(_PORTS, k=200)
            port = next((p for p in candidates if p not in others and is_free(p)), None)
            if port is None:
                raise EmbeddedError("no free TCP port on 127.0.0.1 between 20000 and 32000")
            _write(self.ports_file, {**ports, name: port})
        return port

    def _ports(self) -> dict[str, int]:
        if not self.ports_file.exists():
            return {}
        return cast("dict[str, int]", json.loads(self.ports_file.read_text()))


def open_folder() -> Folder:
    """Return the data folder, EMBEDDED_DIR or `.data` in the checkout, and create it if missing.

    Raises `EmbeddedError` if it belongs to somebody else.
    """
    path = Path(os.environ.get("EMBEDDED_DIR") or ROOT / ".data").expanduser().resolve()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner = path.stat().st_uid
    if owner != os.geteuid():
        raise EmbeddedError(
            f"{path} belongs to user {owner}, you are {os.geteuid()}: "
            "run as that user or set EMBEDDED_DIR to another folder"
        )
    if os.geteuid() == 0 and path.stat().st_gid != _NOBODY:
        # PostgreSQL does not run as root. Its user may pass through, but neither list nor read.
        os.chown(path, 0, _NOBODY)
        path.chmod(0o710)
    return Folder(path)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the one lock on a file; wait for it. The kernel releases it if the process dies."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_free(port: int) -> bool:
    """Whether a server could listen on a port of 127.0.0.1 now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _new_keys() -> dict[str, str]:
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
        "WEBHOOK_SECRETS_KEY": secrets.token_hex(32),
        "REDIS_PASSWORD": secrets.token_urlsafe(32),
        "SOLANA_OWNER_KEY": secrets.token_hex(32),
        "EVM_DEPLOYER_KEY": deployer.hex(),
        "EVM_ESCROW": contracts[-1],
        "EVM_TOKENS": tokens,
    }


def _write(path: Path, content: dict[str, str] | dict[str, int]) -> None:
    """Write a file that only its owner reads, whole or not at all."""
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(content, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
