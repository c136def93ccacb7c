"""The EVM node of a benchmark: the embedded one, or anvil, which costs the machine a fraction of it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from tests.chains.adapter.anvil_node import EACH_SECOND, IS_LOCKED_HERE, running_anvil
from workshop.embedded.evm_setup import EvmSetup
from workshop.localnet import rpc
from workshop.localnet.folder import open_folder

EMBEDDED, ANVIL = "embedded", "anvil"
RPC_URL = "CHAIN_EVM_LOCALNET_RPC_URLS"  # the variable that names the node
_COINS_WEI = 10**24
_START_S = 30


def default_node() -> str:
    """Choose anvil where npm can install it."""
    return ANVIL if IS_LOCKED_HERE and shutil.which("npm") and shutil.which("node") else EMBEDDED


@contextmanager
def evm_node(name: str) -> Iterator[None]:
    """Give an installation that is not booted yet this node; it has the tokens and the escrow of the installation.

    Raises:
        NodeUnavailable: npm cannot install anvil.
    """
    if name == EMBEDDED:
        yield
        return
    folder = open_folder()
    setup = EvmSetup.of(folder)
    with running_anvil(EACH_SECOND) as url:
        rpc.request(url, "anvil_setBalance", setup.deployer.address, hex(_COINS_WEI), timeout_s=_START_S)
        setup.ensure(url, print)
        os.environ[RPC_URL] = url
        os.environ["CHAIN_EVM_LOCALNET_ESCROW"] = setup.escrow
        os.environ["CHAIN_EVM_LOCALNET_TOKENS"] = ",".join(f"{asset}={one}" for asset, one in setup.tokens.items())
        yield
