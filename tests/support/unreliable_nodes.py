"""Nodes that fail, and calls to them."""

import json
from collections.abc import Callable
from typing import Any

from chains.rpc.nodes import Nodes
from tests.support.fake_nodes import Node

MakeNode = Callable[[], Node]


def nodes_at(*nodes: Node, **options: Any) -> Nodes:
    return Nodes([node.url for node in nodes], **options)


def chain_id(nodes: Nodes) -> int:
    return nodes.read([("eth_chainId",)], lambda answers: int(answers[0], 16))


def says(status: int, body: Any) -> Callable[[Any], tuple[int, bytes]]:
    return lambda _: (status, body if isinstance(body, bytes) else json.dumps(body).encode())
