"""Where the methods of the API are collected."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from localnet.jsonrpc.protocol import Method
from localnet.solana.chain import Bank
from localnet.solana.node import Node

API_VERSION = "3.0.0"
METHODS: dict[str, Method] = {}


def method(name: str) -> Callable[[Method], Method]:
    """Register a function as the JSON-RPC method `name`: answered under the node's lock, about one moment."""

    def register(function: Method) -> Method:
        @wraps(function)
        def locked(node: Node, *arguments: Any) -> Any:
            with node.lock:
                return function(node, *arguments)

        METHODS[name] = locked
        return function

    return register


def in_context(bank: Bank, value: Any) -> dict[str, Any]:
    """Return an answer with the slot that it is about."""
    return {"context": {"slot": bank.slot, "apiVersion": API_VERSION}, "value": value}
