"""EVM nodes that answer what a test lets them answer."""

import time
from collections.abc import Iterator

import pytest

from tests.support.fake_nodes import Node, Truth, open_nodes, order_of
from tests.support.lying_evm_nodes import TX
from tests.support.unreliable_nodes import MakeNode


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
