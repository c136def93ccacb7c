"""EVM nodes one of which may lie."""

import time
from collections.abc import Iterator

import pytest

from tests.support.fake_nodes import Node, Truth, open_nodes, order_of
from tests.support.lying_evm_nodes import TX


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    with open_nodes(3) as made:
        yield made


@pytest.fixture
def truth() -> Truth:
    return Truth(TX, order_of(), time.time())


@pytest.fixture(params=[0, 1], ids=["the first lies", "the second lies"])
def liar(request) -> int:
    return int(request.param)
