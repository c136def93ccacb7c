"""The stage of the tests of relayers."""

import pytest


@pytest.fixture
def one_relayer(settings):
    """Register one relayer a chain; a test that has more makes them itself."""
    settings.RELAYERS_PER_CHAIN = 1
