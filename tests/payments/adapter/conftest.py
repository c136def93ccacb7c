"""The nodes that the adapters are tried on: the embedded ones, and those that the environment names."""

import os
from functools import cache

import pytest
from django.conf import settings

from allowance.embedded.folder import open_folder
from tests.chains import LOCALNET, SOLANA_LOCALNET
from tests.payments.adapter.deployment import Deployment
from tests.payments.adapter.evm_deployment import EvmDeployment
from tests.payments.adapter.solana_deployment import SolanaDeployment

# Such a node needs a key that owns gas money there (hex).
_OTHERS = {
    "other EVM": (os.environ.get("EVM_TEST_RPC_URL"), os.environ.get("EVM_TEST_KEY")),
    "other Solana": (os.environ.get("SOLANA_TEST_RPC_URL"), os.environ.get("SOLANA_TEST_KEY")),
}
_NODES = ["EVM", "Solana", *(name for name, known in _OTHERS.items() if all(known))]


@pytest.fixture(scope="session", params=_NODES)
def chain(request: pytest.FixtureRequest) -> Deployment:
    """An escrow of our own on a node of either kind."""
    return _deploy(request.param)


@pytest.fixture(scope="session", params=[name for name in _NODES if name.endswith("EVM")])
def evm(request: pytest.FixtureRequest) -> Deployment:
    """An escrow of our own on an EVM node."""
    return _deploy(request.param)


@pytest.fixture(scope="session", params=[name for name in _NODES if name.endswith("Solana")])
def solana(request: pytest.FixtureRequest) -> Deployment:
    """An escrow of our own on a Solana node."""
    return _deploy(request.param)


@cache
def _deploy(name: str) -> Deployment:
    make = EvmDeployment if name.endswith("EVM") else SolanaDeployment
    url, key = _OTHERS.get(name, (None, None))
    embedded = settings.CHAINS[LOCALNET if make is EvmDeployment else SOLANA_LOCALNET].rpc_urls[0]
    # One key has plenty on either embedded chain.
    return make(url or embedded, key or open_folder().keys()["EVM_DEPLOYER_KEY"])
