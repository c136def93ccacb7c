"""The database's clock, to be set."""

from datetime import timedelta

import pytest
from django.db import connection

from foundation.kernel.times import utc_now
from tests.support.clocks import shadow_clock


@pytest.fixture
def shift(db):
    """Return a function that puts the clock of the test's database session ahead by so many seconds."""

    def put_ahead(seconds):
        path = shadow_clock("shifted_clock", seconds)
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL search_path = {path}")

    return put_ahead


@pytest.fixture
def start():
    """A moment so long ago that weeks fit in before now."""
    return utc_now() - timedelta(days=60)
