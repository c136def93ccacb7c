"""One installation for all walks, its people and its agents."""

from collections.abc import Iterator

import pytest

from tests.days.agents import Agents
from tests.days.installation import Installation, installed
from tests.days.people import Office
from tests.support.browser import open_browser

# The steps assert, too.
pytest.register_assert_rewrite(
    *(f"tests.days.{one}" for one in ("accounts", "chains", "keys", "limits", "payees", "payments"))
)


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installed(tmp_path_factory.mktemp("days") / "installation") as made:
        yield made


@pytest.fixture(scope="module")
def everybody(installation: Installation) -> Iterator[Office]:
    with open_browser() as browser:
        yield Office(browser, installation.url)


@pytest.fixture
def office(everybody: Office) -> Iterator[Office]:
    """The people; when a test ends, nothing may have gone wrong in the pages that they opened."""
    yield everybody
    everybody.show()
    assert everybody.troubles() == []


@pytest.fixture
def agents(installation: Installation) -> Agents:
    return Agents(installation.url, installation.api_key)
