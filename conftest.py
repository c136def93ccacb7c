"""The cast of the tests: a database with the chains observed, API clients, real server processes."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test.utils import setup_databases, teardown_databases
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from pytest_django.plugin import DjangoDbBlocker

from foundation.kernel.repeated_logs import repeated_logs
from payments.tasks import observe_chain
from tests.support.answers import count_rows
from tests.support.api import Api
from tests.support.evm_escrow import OWNER_ACTS
from tests.support.factories import make_agent, make_api_key, make_service
from tests.support.hurry import hurry
from tests.support.left_behind import Shared, changes_of_the_escrow
from tests.support.localnets import LOCALNETS
from tests.support.servers import Servers

# How long an example takes says more of the machine than of us. In CI Hypothesis has a profile that says so already.
hypothesis_settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("tests")
# Each test's client loads the middleware anew: it shall not look at every static file each time. Servers do, once.
django_settings.WHITENOISE_AUTOREFRESH = True


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tell apart what a test's own transaction takes back: as pytest-django sorts them, those tests come first."""
    if "db" in getattr(item, "fixturenames", ()) or item.get_closest_marker("django_db"):
        item.add_marker("rolled_back")


@pytest.fixture(autouse=True)
def unsaid() -> None:
    """Let every test say and see again what is said once a minute, and looked at once a second or in ten."""
    from foundation.recent import Recent  # noqa: PLC0415 - the settings come first
    from payments.api.readiness import find_unready_lately  # noqa: PLC0415

    repeated_logs.forget()
    find_unready_lately.cache_clear()
    Recent.kept_for_s = 0


@pytest.fixture(autouse=True)
def kinds_as_they_were() -> Iterator[None]:
    """Forget the kinds of changes that a test has made known: others go over all that there are."""
    from staff.kinds import _kinds  # noqa: PLC0415 - the settings come first

    before = dict(_kinds)
    yield
    if _kinds != before:
        _kinds.clear()
        _kinds.update(before)


@pytest.fixture(scope="session")
def django_db_setup(django_test_environment: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Make the tests' database and let the watcher look at the chains once, for all tests.

    In place of pytest-django's own, which makes no database when only tests with `committed` are selected.
    """
    from payments.api.views import batch_sessions  # noqa: PLC0415 - the settings come first

    with django_db_blocker.unblock():
        made = setup_databases(verbosity=0, interactive=False, serialized_aliases=[])
        _know_chains()
    yield
    with django_db_blocker.unblock():
        batch_sessions.close()
        teardown_databases(made, verbosity=0)


def _know_chains() -> None:
    for localnet in LOCALNETS:
        localnet.begin()
        observe_chain(localnet.caip2)


@pytest.fixture(scope="session")
def known_chains(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> None:
    """Know the chains as they are now: what tests that were rolled back have done there, the database has forgotten."""
    with django_db_blocker.unblock():
        _know_chains()


@pytest.fixture
def committed(known_chains: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Use the database with real commits, visible to other connections and processes. Nothing is cleaned up after:
    the log refuses to be emptied, and every test makes its own agents and services. What there is only one of is put
    back, whoever needs it next; a test that does not do so itself fails.
    """
    with django_db_blocker.unblock():
        before = Shared.read()
        yield
        left = before.put_back()
    assert not left


@pytest.fixture(autouse=True)
def escrow_as_it_was(django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """See that a test that acted as the escrow's owner leaves it as it is configured."""
    acts = len(OWNER_ACTS)
    yield
    if len(OWNER_ACTS) > acts:
        with django_db_blocker.unblock():
            left = changes_of_the_escrow()
        assert not left


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands that wait for a block make one."""
    hurry(monkeypatch)


@pytest.fixture(scope="session")
def servers(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Servers]:
    """Run real web servers, several processes, on the tests' database."""
    with django_db_blocker.unblock(), Servers(count=2) as running:
        yield running


@pytest.fixture
def api(db: None) -> Api:
    """A client with an unbound key that has every scope. The test's changes are rolled back."""
    return Api(make_api_key())


@pytest.fixture
def anonymous(db: None) -> Api:
    """A client without a key."""
    return Api(None)


@pytest.fixture
def client_of(db: None) -> Callable[..., Api]:
    """Return a function that makes a client: `agent` binds its key, `scopes` names what it permits."""

    def make(**options: Any) -> Api:
        return Api(make_api_key(**options))

    return make


@pytest.fixture
def no_trace(db: None) -> Iterator[None]:
    """Assert that the test leaves no log entry, payment, movement, service or event beyond what it began with.

    Name it behind the fixtures that make something.
    """
    before = count_rows()
    yield
    assert count_rows() == before


@pytest.fixture
def agent(db: None) -> Any:
    """An active USDC agent: 10 a payment, 50 a day, 100 a week, balance 1000."""
    return make_agent()


@pytest.fixture
def service(db: None) -> Any:
    """An approved USDC service on the embedded chain."""
    return make_service()


@pytest.fixture
def payment(agent: Any, service: Any) -> dict[str, Any]:
    """A request body that is approved as it is."""
    return {"agentId": agent.id, "service": service.id, "amount": "1.00", "asset": "USDC", "reason": "A test"}
