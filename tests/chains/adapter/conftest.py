"""The nodes that the adapters are tried on: the embedded ones, anvil, and those that the environment names."""

import os
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from django.conf import settings

from tests.chains.adapter.anvil_node import FOLDER, FUNDED_KEY, has_program, running_anvil
from tests.chains.adapter.deployment import Deployment
from tests.chains.adapter.evm_deployment import EvmDeployment
from tests.chains.adapter.solana_deployment import SolanaDeployment
from tests.support.javascript import install_or_skip, needs_node
from tests.support.local_ids import LOCALNET, SOLANA_LOCALNET
from workshop.localnet.folder import open_folder

# Such a node needs a key that owns gas money there (hex).
_OTHERS = {
    "other EVM": (os.environ.get("EVM_TEST_RPC_URL"), os.environ.get("EVM_TEST_KEY")),
    "other Solana": (os.environ.get("SOLANA_TEST_RPC_URL"), os.environ.get("SOLANA_TEST_KEY")),
}
_GIVEN = [name for name, known in _OTHERS.items() if all(known)]
_ANVIL = "anvil EVM"
_EVM: list[Any] = [
    "EVM",
    pytest.param(_ANVIL, marks=[needs_node, has_program]),
    *(name for name in _GIVEN if name.endswith("EVM")),
]
_SOLANA: list[Any] = ["Solana", *(name for name in _GIVEN if name.endswith("Solana"))]


@pytest.fixture(scope="session", params=[*_EVM, *_SOLANA])
def chain(request: pytest.FixtureRequest) -> Deployment:
    """An escrow of our own on a node of either kind."""
    return _deploy(request)


@pytest.fixture(scope="session", params=_EVM)
def evm(request: pytest.FixtureRequest) -> Deployment:
    """An escrow of our own on an EVM node."""
    return _deploy(request)


@pytest.fixture(scope="session", params=_SOLANA)
def solana(request: pytest.FixtureRequest) -> Deployment:
    """An escrow of our own on a Solana node."""
    return _deploy(request)


@pytest.fixture(scope="session")
def anvil_url() -> Iterator[str]:
    """A node that runs until the tests end, however they do."""
    install_or_skip(FOLDER)
    with running_anvil() as url:
        yield url


def _deploy(request: pytest.FixtureRequest) -> Deployment:
    # Only who is tried on anvil starts it.
    anvil_url = request.getfixturevalue("anvil_url") if request.param == _ANVIL else None
    return _deployment(request.param, anvil_url)


@cache
def _deployment(name: str, anvil_url: str | None) -> Deployment:
    make = EvmDeployment if name.endswith("EVM") else SolanaDeployment
    url, key = (anvil_url, FUNDED_KEY) if anvil_url else _OTHERS.get(name, (None, None))
    embedded = settings.CHAINS[LOCALNET if make is EvmDeployment else SOLANA_LOCALNET].rpc_urls[0]
    # One key has plenty on either embedded chain.
    return make(url or embedded, key or open_folder().keys()["EVM_DEPLOYER_KEY"])
