"""The Solana node as a process of its own: started here, served by `allowance.embedded.solana`."""

from collections.abc import Callable

from allowance.embedded import rpc
from allowance.embedded.daemon import Daemon
from allowance.embedded.folder import Folder
from allowance.embedded.node_process import NodeProcess
from allowance.embedded.solana_localnet import SolanaLocalnet

_NODE = NodeProcess("the Solana node", "solana-localnet", "allowance.embedded.solana")


def url(folder: Folder) -> str:
    """Return the node's RPC URL."""
    return _NODE.url(folder)


def daemon(folder: Folder) -> Daemon:
    """Return the node's process."""
    return _NODE.daemon(folder)


def ensure(folder: Folder, progress: Callable[[str], None]) -> None:
    """Make sure that the node runs, mints and escrow exist and everyone is funded.

    Hold the start lock.
    """
    localnet = SolanaLocalnet.of(folder)
    faucet = str(localnet.deployer.pubkey())
    _NODE.ensure(folder, faucet, lambda at: _has_lamports(at, faucet), progress)
    localnet.ensure(url(folder), progress)


def _has_lamports(at: str, faucet: str) -> bool:
    return bool(rpc.request(at, "getBalance", faucet, timeout_s=5)["value"])
