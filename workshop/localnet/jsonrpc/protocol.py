"""JSON-RPC 2.0 over bytes: requests, batches, notifications and errors."""

import inspect
import json
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any

from workshop.localnet.jsonrpc.errors import (
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    ParseError,
    RpcError,
)

_MAX_BATCH = 1_000
_MAX_DEPTH = 2_000
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_logger = logging.getLogger(__name__)

Method = Callable[..., Any]


class Protocol:
    """Answers for one node: each method is called with the node and the parameters."""

    def __init__(self, node: Any, methods: Mapping[str, Method]) -> None:
        self._node = node
        self._methods = methods
        self._signatures = {name: inspect.signature(function) for name, function in methods.items()}

    def answer(self, body: bytes) -> bytes:
        """Answer a request or a batch. Returns nothing for notifications. Never raises."""
        try:
            request = None if _is_too_deep(body) else json.loads(body)
        except ValueError:
            return _encoded(_failure(None, ParseError("parse error")))
        if not isinstance(request, list):
            return _encoded(self._answer_one(request))
        if not request:
            return _encoded(_failure(None, InvalidRequest("empty batch")))
        if len(request) > _MAX_BATCH:
            return _encoded(_failure(None, InvalidRequest("batch too large")))
        answers = [one for one in map(self._answer_one, request) if one is not None]
        return _encoded(answers or None)

    def _answer_one(self, request: Any) -> dict[str, Any] | None:
        request_id = request.get("id") if isinstance(request, dict) else None
        if isinstance(request_id, dict | list | bool):
            request_id = None
        try:
            name, arguments = _checked(request)
            result = self._run(name, arguments)
        except RpcError as error:
            response = _failure(request_id, error)
        except Exception:
            # Whatever it is, the process must live on for the others.
            _logger.exception("cannot answer %s", str(request)[:500])
            response = _failure(request_id, InternalError("internal error"))
        else:
            response = {"jsonrpc": "2.0", "id": request_id, "result": result}
        is_notification = isinstance(request, dict) and "method" in request and "id" not in request
        return None if is_notification else response

    def _run(self, name: str, arguments: list[Any]) -> Any:
        if name not in self._methods:
            raise MethodNotFound(f"the method {name} does not exist/is not available")
        # Trailing nulls mean the same as nothing.
        while arguments and arguments[-1] is None:
            arguments = arguments[:-1]
        try:
            self._signatures[name].bind(self._node, *arguments)
        except TypeError as error:
            raise InvalidParams(f"invalid parameters of {name}: {error}") from error
        return self._methods[name](self._node, *arguments)


def _is_too_deep(body: bytes) -> bool:
    """Whether reading the JSON could exhaust the stack, which ends the process.

    py-evm raises Python's recursion limit beyond what the C stack holds.
    """
    if body.count(b"[") + body.count(b"{") <= _MAX_DEPTH:
        return False
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(body):
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(match.group(), 0)
        if depth > _MAX_DEPTH:
            return True
    return False


def _checked(request: Any) -> tuple[str, list[Any]]:
    if not isinstance(request, dict) or request.get("jsonrpc") != "2.0":
        raise InvalidRequest("invalid request")
    name, arguments = request.get("method"), request.get("params")
    if not isinstance(name, str):
        raise InvalidRequest("invalid request: no method")
    if isinstance(arguments, list):
        return name, arguments
    if arguments is None or arguments == {}:
        return name, []
    raise InvalidParams("parameters must be given as a list")


def _failure(request_id: Any, error: RpcError) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": error.as_json()}


def _encoded(response: Any) -> bytes:
    return b"" if response is None else json.dumps(response).encode()
