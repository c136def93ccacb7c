"""The errors of any JSON-RPC server."""

from typing import Any


class RpcError(Exception):
    """A JSON-RPC error object: an integer code, a message and, for some, data."""

    code = -32000

    def __init__(self, message: str, *, data: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.data = data

    def as_json(self) -> dict[str, Any]:
        """Return the `error` member of a JSON-RPC answer."""
        body: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            body["data"] = self.data
        return body


class ParseError(RpcError):
    """The body is no JSON."""

    code = -32700


class InvalidRequest(RpcError):
    """The JSON is no JSON-RPC request."""

    code = -32600


class MethodNotFound(RpcError):
    """The node does not have the method."""

    code = -32601


class InvalidParams(RpcError):
    """The parameters of the method are wrong."""

    code = -32602


class InternalError(RpcError):
    """A defect of the node itself; the log says more."""

    code = -32603
