"""A distributed installation: the database of `CITUS_DATABASE_URL`, migrated and spread over the cluster's workers."""

import os
from collections.abc import Iterator
from datetime import datetime
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connections
from pytest_django.plugin import DjangoDbBlocker

from foundation import groups
from foundation.groups import read_of
from foundation.kernel.times import utc_now
from payments.models import ChainState
from payments.tasks import observe_chain
from tests.distributed.before import Before, live
from tests.distributed.nodes import Nodes
from tests.support.house import House
from tests.support.kills import wait_until
from tests.support.localnets import LOCALNETS

collect_ignore_glob = [] if "CITUS_DATABASE_URL" in os.environ else ["test_*.py"]
GROUPS = 6


@pytest.fixture(scope="session")
def before(django_test_environment: None, django_db_blocker: DjangoDbBlocker) -> Before:
    """Live on one server, the coordinator, in place of the tests' own database."""
    with django_db_blocker.unblock():
        call_command("migrate", verbosity=0)
        for localnet in LOCALNETS:
            localnet.begin()
            observe_chain(localnet.caip2)
        with House(environment=dict(os.environ)) as house:
            start(house)
            return live(house)


@pytest.fixture(scope="session")
def django_db_setup(before: Before, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Spread what has lived on one server over several."""
    with django_db_blocker.unblock():
        call_command("distribute", groups=GROUPS, stdout=StringIO(), stderr=StringIO())
        connections.close_all()  # as by a process that begins once it is distributed
        yield
        groups.forget()


@pytest.fixture(autouse=True)
def spread(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Let a test use the cluster, with real commits; nothing is cleaned up after it."""
    with django_db_blocker.unblock():
        yield


@pytest.fixture(scope="session")
def nodes() -> Iterator[Nodes]:
    found = Nodes()
    yield found
    found.close()


def start(house: House) -> None:
    for name in ("web", "web-2", "worker", "webhooks", "beat"):
        house.start(name)
    house.wait_for("web", "web-2", "worker", "webhooks")


def observed_at() -> list[datetime]:
    return list(ChainState.objects.values_list("observed_at", flat=True))


@pytest.fixture(scope="module")
def house(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[House]:
    """The product's processes: two web servers, and what settles and delivers."""
    variables = {"CHAIN_STATE_MAX_AGE_S": "15"}
    with django_db_blocker.unblock(), House(environment={**os.environ, **variables}) as running:
        start(running)
        began_at = utc_now()
        wait_until(lambda: min(read_of(None, observed_at)) > began_at, "the watcher looks at the chains")
        yield running
        if folder := os.environ.get("CITUS_LOGS"):
            for name in running.names():
                Path(folder, f"{name}.log").write_bytes(running.log_of(name).read_bytes())
