"""The fixtures of the contract tests."""

from pathlib import Path

import pytest

from tests.chains.contracts.world import World, read_artifact

SOLIDITY = Path(__file__).parent / "solidity"


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(scope="session")
def compiled():
    """Return the contracts of this folder, by name."""
    return {artifact.stem: read_artifact(artifact) for artifact in SOLIDITY.glob("*.json")}


@pytest.fixture
def misbehaving(world, compiled):
    """Deploy and fund one of these tokens."""

    def deploy(name: str, *arguments):
        token = world.deploy_token(compiled[name], *arguments)
        world.fund(token)
        return token

    return deploy


@pytest.fixture
def depositor(world):
    world.send(world.token.functions.mint(world.depositor.address, 5_000), world.deployer)
    world.send(world.token.functions.approve(world.escrow.address, 1_000), world.depositor)
    return world.depositor


@pytest.fixture
def paused(world):
    world.send(world.escrow.functions.pause(), world.owner)
    assert world.escrow.functions.paused().call()
