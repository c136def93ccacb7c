"""Two nodes of a Solana chain that answer what a test lets them answer."""

from collections.abc import Iterator

import pytest

from tests.support.fake_nodes import Node, open_nodes
from tests.support.fake_solana_nodes import Truth


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    """Run two nodes of a Solana chain."""
    with open_nodes(2) as made:
        yield made


@pytest.fixture
def node(nodes: list[Node]) -> Node:
    """Give the first of the nodes."""
    return nodes[0]


@pytest.fixture
def truth() -> Truth:
    """Give what an honest node of a Solana chain answers."""
    return Truth()


@pytest.fixture(params=[0, 1], ids=["the first lies", "the second lies"])
def liar(request) -> int:
    return int(request.param)
