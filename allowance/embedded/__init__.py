"""What a laptop needs instead of a database, a broker and a chain.

`start()` runs, for whatever the environment configures no URL, the real servers that come in
wheels: PostgreSQL 18, Redis, an EVM and a Solana node. Their data live in `.data` of the checkout, or in
the folder that EMBEDDED_DIR names. The last process that leaves stops them. Call it before
`environment()`, which says where the servers are: ports can change at a start.
"""

import atexit
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.util import Finalize
from types import ModuleType

from allowance.embedded import evm_server, postgres, redis_server, solana_server
from allowance.embedded.errors import EmbeddedError
from allowance.embedded.evm import CHAIN_ID
from allowance.embedded.folder import Folder, locked, open_folder
from allowance.embedded.lease import Lease
from allowance.embedded.localnet import RELAYER_COUNT
from allowance.embedded.solana_localnet import SolanaLocalnet

__all__ = [
    "CHAIN_ID",
    "RELAYER_COUNT",
    "EmbeddedError",
    "environment",
    "postgres",
    "start",
    "stop_unused",
]

_EVM, _SOLANA = "CHAIN_EVM_LOCALNET", "CHAIN_SOLANA_LOCALNET"
_DEPOSITOR = "DEPOSIT_KEY"
_OWN = (
    "SECRET_KEY",
    "POLICY_SIGNER_ED25519_KEY",
    "POLICY_SIGNER_SECP256K1_KEY",
    "POLICY_SIGNER_SOLANA_KEY",
    "RELAYER_SEED",
    "WEBHOOK_SECRETS_KEY",
)
# Server by the variable that makes it unnecessary.
_SERVERS: dict[str, ModuleType] = {
    "DATABASE_URL": postgres,
    "REDIS_URL": redis_server,
    f"{_EVM}_RPC_URLS": evm_server,
    f"{_SOLANA}_RPC_URLS": solana_server,
}
_NODES = (evm_server, solana_server)
_leases: dict[Folder, Lease] = {}


def environment() -> dict[str, str]:
    """Return the environment variables that are not set and that the installation provides.

    Starts nothing. Creates the data folder and its secrets on first use. An empty variable counts
    as not set. Raises `EmbeddedError` if the data folder belongs to another user.
    """
    provided = _provided(open_folder())
    # Of a chain that the user runs, we know no contracts.
    foreign = [chain for chain in (_EVM, _SOLANA) if not _is_ours(f"{chain}_RPC_URLS", provided)]
    if len(foreign) == len((_EVM, _SOLANA)):
        foreign.append(_DEPOSITOR)
    return {
        name: value
        for name, value in provided.items()
        if not os.environ.get(name) and not name.startswith(tuple(foreign))
    }


def start(progress: Callable[[str], None] = lambda text: print(text, file=sys.stderr)) -> None:  # noqa: T201 - for whoever started this in a terminal
    """Make sure that every server without a URL in the environment runs and is ready.

    Any number of processes may call it, at once and again. Until this process ends it has a claim
    on the servers; when it is the last that has one, it stops them. Raises `EmbeddedError`.
    """
    folder = open_folder()
    before = _provided(folder)
    needed = [server for name, server in _SERVERS.items() if _is_ours(name, before)]
    if not needed:
        return
    with locked(folder.path / "start.lock"):
        _claim(folder)
        for server in needed:
            if server not in _NODES:
                server.ensure(folder, progress)
        # Side by side: what a node does longest at its start is to import its libraries.
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda node: node.ensure(folder, progress), [one for one in needed if one in _NODES]))
    # A port that was taken has changed: so has the URL that this process may have been given.
    for name, value in _provided(folder).items():
        if os.environ.get(name) == before[name]:
            os.environ[name] = value


def stop_unused() -> bool:
    """Stop the servers unless a process has a claim on them. Return whether they are stopped."""
    folder = open_folder()
    with locked(folder.path / "start.lock"):
        lease = Lease(folder.path / "lease")
        try:
            return _stop_if_last(folder, lease)
        finally:
            lease.release()


def _claim(folder: Folder) -> None:
    lease = _leases.get(folder)
    if lease is not None and lease.holder == os.getpid():
        return
    # A forked child takes a claim of its own and leaves its parent's alone.
    _leases[folder] = Lease(folder.path / "lease")
    atexit.register(_leave, folder, os.getpid())
    # Processes of multiprocessing end without atexit.
    Finalize(None, _leave, args=(folder, os.getpid()), exitpriority=0)


def _leave(folder: Folder, pid: int) -> None:
    if pid != os.getpid() or folder not in _leases or not folder.path.exists():
        return
    with locked(folder.path / "start.lock"):
        lease = _leases.pop(folder)
        _stop_if_last(folder, lease)
        lease.release()


def _stop_if_last(folder: Folder, lease: Lease) -> bool:
    if not lease.is_last():
        return False
    for server in _SERVERS.values():
        server.daemon(folder).stop()
    return True


def _provided(folder: Folder) -> dict[str, str]:
    keys = folder.keys()
    solana = SolanaLocalnet.of(folder)
    return {
        "DATABASE_URL": postgres.url(folder),
        "REDIS_URL": redis_server.url(folder),
        **{name: keys[name] for name in _OWN},
        f"{_EVM}_RPC_URLS": evm_server.url(folder),
        f"{_EVM}_ESCROW": keys["EVM_ESCROW"],
        f"{_EVM}_TOKENS": keys["EVM_TOKENS"],
        f"{_SOLANA}_RPC_URLS": solana_server.url(folder),
        f"{_SOLANA}_ESCROW": str(solana.escrow),
        f"{_SOLANA}_OWNER": str(solana.owner),
        f"{_SOLANA}_FIRST_BLOCK": str(solana.first_block),
        f"{_SOLANA}_TOKENS": ",".join(f"{asset}={mint}" for asset, mint in solana.tokens.items()),
        # Who made the test tokens can make more of them.
        _DEPOSITOR: keys["EVM_DEPLOYER_KEY"],
    }


def _is_ours(name: str, provided: dict[str, str]) -> bool:
    """Whether a variable is unset, or a process above us has set it to what we provide."""
    return (os.environ.get(name) or provided[name]) == provided[name]
