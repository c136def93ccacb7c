"""Start `workshop.localnet.solana`, the Solana node, as a process of its own."""

from collections.abc import Callable

from workshop.localnet import rpc
from workshop.localnet.daemon import Daemon
from workshop.localnet.folder import Folder
from workshop.localnet.node_process import NodeProcess

_NODE = NodeProcess("the Solana node", "solana-localnet", "workshop.localnet.solana")


def url(folder: Folder) -> str:
    """Return the node's RPC URL."""
    return _NODE.url(folder)


def daemon(folder: Folder) -> Daemon:
    """Return the node's process."""
    return _NODE.daemon(folder)


def ensure(folder: Folder, faucet: str, progress: Callable[[str], None]) -> None:
    """Make sure that the node runs; on a new chain `faucet` has all coins. Hold the start lock."""
    _NODE.ensure(folder, faucet, lambda at: _has_lamports(at, faucet), progress)


def _has_lamports(at: str, faucet: str) -> bool:
    return bool(rpc.request(at, "getBalance", faucet, timeout_s=5)["value"])
