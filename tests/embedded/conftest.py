"""Installations for tests, stopped whatever happens."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.chain import Chain
from tests.embedded.installation import Installation


@pytest.fixture
def install(tmp_path: Path) -> Iterator[Callable[..., Installation]]:
    """Return a function that makes an installation; `name` is its folder below the test's."""
    made: list[Installation] = []

    def make(name: str = "data", **options: Any) -> Installation:
        made.append(Installation(tmp_path / name, **options))
        return made[-1]

    yield make
    for installation in made:
        installation.stop()


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[Chain]:
    """Return a new chain in this process."""
    made = Chain(tmp_path)
    yield made
    made.database.close()
