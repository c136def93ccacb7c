"""The errors that an EVM node has of its own, with the codes and words of a real one (geth)."""

from workshop.localnet.jsonrpc.errors import RpcError


class LimitExceeded(RpcError):
    """The answer would be too large."""

    code = -32005


class Rejected(RpcError):
    """The node understood the request and refuses it, as the pool does with a transaction."""


class ExecutionReverted(RpcError):
    """A call reverted: `data` is what the contract returned, as 0x hex."""

    code = 3
