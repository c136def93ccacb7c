"""The stage of the fuzzing: real servers, and somebody there who can be paid."""

from collections.abc import Iterator

import pytest

from tests.fuzz.cast import Cast, make_cast, settling


@pytest.fixture(scope="session")
def cast(django_db_setup, django_db_blocker) -> Cast:
    with django_db_blocker.unblock():
        return make_cast()


@pytest.fixture(scope="module")
def stage(cast, servers, django_db_blocker) -> Iterator[str]:
    """The address of a server, behind which payments are settled."""
    with django_db_blocker.unblock(), settling():
        yield servers.urls[0]
