"""The stage of the tests of settlement."""

import pytest

from tests.scenes import Scene


@pytest.fixture
def scene(db: None) -> Scene:
    """An agent, a payee and a chain with one relayer; rolled back."""
    return Scene()
