"""A node as anybody reaches it: JSON-RPC over HTTP."""

import json
import urllib.request
from http.client import HTTPException
from typing import Any

_ANSWER_S = 20
# A proxy in the environment is not meant for this machine.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Refused(Exception):
    """Raise when the node is away, or does not do what it is asked."""


class Node:
    """One node's address."""

    def __init__(self, url: str) -> None:
        self._url = url

    def ask(self, method: str, *parameters: Any) -> Any:
        """Return the result of one call. Raises `Refused`."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
        message = urllib.request.Request(  # noqa: S310 - the node's own address
            self._url, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with _opener.open(message, timeout=_ANSWER_S) as response:
                answer = json.load(response)
        except (OSError, HTTPException, ValueError) as error:
            raise Refused(str(error)) from None
        if "error" in answer:
            raise Refused(str(answer["error"]["message"]))
        return answer["result"]
