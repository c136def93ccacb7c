"""The stage of the fuzzing: real servers, and somebody there who can be paid."""

from collections.abc import Iterator
from typing import Any

import pytest

from services.models import Service
from tests.fuzz.cast import Cast, make_cast, settling


@pytest.fixture(scope="session")
def cast(django_db_setup, django_db_blocker) -> Cast:
    with django_db_blocker.unblock():
        return make_cast()


@pytest.fixture(scope="session")
def payees(cast, django_db_blocker) -> list[dict[str, Any]]:
    """The payees of the cast, as they were made."""
    with django_db_blocker.unblock():
        return [dict(one) for one in Service.objects.filter(id__startswith="fuzz-payee").values()]


@pytest.fixture(scope="module")
def stage(cast, payees, servers, django_db_blocker) -> Iterator[str]:
    """The address of a server, behind which payments are settled."""
    with django_db_blocker.unblock(), settling():
        for payee in payees:  # the fuzzing before may have registered them otherwise, for good
            Service.objects.filter(pk=payee["id"]).update(**payee)
        yield servers.urls[0]
