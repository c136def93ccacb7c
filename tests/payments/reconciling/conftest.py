"""The stage of the tests of outflows."""

import pytest

from tests.support.scenes import Scene


@pytest.fixture
def counting(db: None) -> Scene:
    """A chain whose escrow counts payments: it has nonces, voids, and tells who was paid."""
    return Scene()
