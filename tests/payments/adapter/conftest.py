"""The nodes that the adapter is tried on: the embedded one, and the one that the environment names."""

import os

import pytest
from django.conf import settings

from allowance.embedded.folder import open_folder
from tests.chains import LOCALNET
from tests.payments.adapter.deployment import Deployment

# The node that the environment names needs a key that owns gas money there (hex).
OTHER = (os.environ.get("EVM_TEST_RPC_URL"), os.environ.get("EVM_TEST_KEY"))


@pytest.fixture(scope="session", params=["embedded", "other"] if all(OTHER) else ["embedded"])
def chain(request: pytest.FixtureRequest) -> Deployment:
    """An escrow of our own on a node."""
    url, key = OTHER
    if request.param == "other" and url and key:
        return Deployment(url, key)
    return Deployment(settings.CHAINS[LOCALNET].rpc_urls[0], open_folder().keys()["EVM_DEPLOYER_KEY"])
