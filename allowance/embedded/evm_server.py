"""The EVM node as a process of its own: started here, served by `allowance.embedded.evm`."""

from collections.abc import Callable

from allowance.embedded import rpc
from allowance.embedded.daemon import Daemon
from allowance.embedded.folder import Folder
from allowance.embedded.localnet import Localnet
from allowance.embedded.node_process import NodeProcess

_NODE = NodeProcess("the EVM node", "evm-localnet", "allowance.embedded.evm")


def url(folder: Folder) -> str:
    """Return the node's RPC URL."""
    return _NODE.url(folder)


def daemon(folder: Folder) -> Daemon:
    """Return the node's process."""
    return _NODE.daemon(folder)


def ensure(folder: Folder, progress: Callable[[str], None]) -> None:
    """Make sure that the node runs, the contracts are deployed and everyone is funded.

    Hold the start lock.
    """
    localnet = Localnet.of(folder)
    faucet = localnet.deployer.address
    _NODE.ensure(folder, faucet, lambda at: _has_ether(at, faucet), progress)
    localnet.ensure(url(folder), progress)


def _has_ether(at: str, faucet: str) -> bool:
    return bool(rpc.request(at, "eth_getBalance", faucet, "earliest", timeout_s=5) != "0x0")
