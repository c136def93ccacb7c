"""The EVM node as a process of its own: started here, served by `allowance.embedded.evm`."""

import sys
from collections.abc import Callable

from allowance.embedded import rpc
from allowance.embedded.daemon import Daemon
from allowance.embedded.errors import EmbeddedError
from allowance.embedded.folder import ROOT, Folder, is_free
from allowance.embedded.localnet import Localnet
from allowance.embedded.readiness import is_healthy, wait_until_ready

_START_S = 60
_PORT = "evm-localnet"
_ATTEMPTS = 3


def url(folder: Folder) -> str:
    """Return the node's RPC URL."""
    return f"http://127.0.0.1:{folder.port(_PORT)}"


def daemon(folder: Folder) -> Daemon:
    """Return the node's process."""
    return Daemon("the EVM node", folder.path / "evm-localnet")


def ensure(folder: Folder, progress: Callable[[str], None]) -> None:
    """Make sure that the node runs, the contracts are deployed and everyone is funded.

    Hold the start lock.
    """
    localnet = Localnet.of(folder)
    _ensure_node(folder, localnet.deployer.address, progress)
    localnet.ensure(url(folder), progress)


def _ensure_node(folder: Folder, faucet: str, progress: Callable[[str], None]) -> None:
    server = daemon(folder)
    if is_healthy(server, lambda: _answers(folder, faucet), timeout_s=_START_S):
        return
    progress("starting the EVM node")
    server.folder.mkdir(mode=0o700, exist_ok=True)
    for attempt in range(1, _ATTEMPTS + 1):
        if not is_free(folder.port(_PORT)):
            folder.new_port(_PORT)
        options = {"--data": server.folder, "--port": folder.port(_PORT), "--faucet": faucet}
        words = [str(word) for pair in options.items() for word in pair]
        server.start(
            [sys.executable, "-m", "allowance.embedded.evm", *words],
            variables={"PYTHONPATH": str(ROOT)},
        )
        try:
            wait_until_ready(server, lambda: _answers(folder, faucet), timeout_s=_START_S)
        except EmbeddedError:
            # Somebody may have taken the port between the question and the start.
            if attempt == _ATTEMPTS or is_free(folder.port(_PORT)):
                raise
        else:
            return


def _answers(folder: Folder, faucet: str) -> bool:
    """Whether our chain answers, not one of another installation on the same port."""
    try:
        ether = rpc.request(url(folder), "eth_getBalance", faucet, "earliest", timeout_s=5)
    except (OSError, ValueError, EmbeddedError):
        return False
    return bool(ether != "0x0")
