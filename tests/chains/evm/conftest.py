"""EVM nodes that answer what a test lets them answer."""

from collections.abc import Iterator

import pytest

from tests.support.fake_nodes import Node
from tests.support.unreliable_nodes import MakeNode


@pytest.fixture
def make_node() -> Iterator[MakeNode]:
    nodes: list[Node] = []

    def make() -> Node:
        nodes.append(Node())
        nodes[-1].answers = {"eth_chainId": "0x1", "echo": lambda one: one}
        return nodes[-1]

    yield make
    for node in nodes:
        node.close()


@pytest.fixture
def node(make_node: MakeNode) -> Node:
    return make_node()
