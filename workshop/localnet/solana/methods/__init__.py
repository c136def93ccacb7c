"""The methods of the JSON-RPC API, one function each: `(node, *params) -> result`."""

from collections.abc import Mapping
from functools import wraps
from typing import Any

from workshop.localnet.jsonrpc.protocol import Method
from workshop.localnet.solana.methods import accounts, cluster, development, history, sending
from workshop.localnet.solana.node import Node


def _locked(function: Method) -> Method:
    """Answer under the node's lock: an answer is about one moment."""

    @wraps(function)
    def answer(node: Node, *arguments: Any) -> Any:
        with node.lock:
            return function(node, *arguments)

    return answer


METHODS: Mapping[str, Method] = {
    name: _locked(function)
    for module in (accounts, cluster, development, history, sending)
    for name, function in module.METHODS.items()
}
