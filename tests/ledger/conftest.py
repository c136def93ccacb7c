"""The log of one agent."""

import pytest

from tests.support.histories import History


@pytest.fixture
def history(db: None) -> History:
    return History()
