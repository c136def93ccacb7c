"""A pytest plugin, with `-p tests.support.any_order`: files come in any order, and so do the tests of each.

The seed is shown; PYTEST_ORDER_SEED repeats it.
"""

import os
import random
import secrets
from collections import defaultdict
from pathlib import Path

import pytest

_SEED = "PYTEST_ORDER_SEED"


def pytest_configure() -> None:
    # Workers inherit it: all must have the same order.
    os.environ.setdefault(_SEED, str(secrets.randbelow(10**6)))


def pytest_report_header() -> str:
    return f"in any order: {_SEED}={os.environ[_SEED]}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    chance = random.Random(os.environ[_SEED])
    files: dict[Path, list[pytest.Item]] = defaultdict(list)
    for item in items:
        files[item.path].append(item)
    names = chance.sample(sorted(files), k=len(files))
    items[:] = [item for name in names for item in chance.sample(files[name], k=len(files[name]))]
