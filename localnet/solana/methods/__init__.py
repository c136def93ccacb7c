"""The methods of the JSON-RPC API, one function each: `(node, *params) -> result`."""

from localnet.solana.methods import accounts, cluster, development, history, sending
from localnet.solana.methods.registry import METHODS

__all__ = ["METHODS", "accounts", "cluster", "development", "history", "sending"]
