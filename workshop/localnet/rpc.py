"""A JSON-RPC client in a few lines: this package needs no web3."""

import json
import urllib.request
from typing import Any

from workshop.localnet.errors import LocalnetError

# A proxy in the environment is not meant for 127.0.0.1.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def request(url: str, method: str, *params: Any, timeout_s: float = 30) -> Any:
    """Return the result of one call.

    Raises `OSError` if nobody answers and `LocalnetError` if the answer is an error.
    """
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    message = urllib.request.Request(  # noqa: S310 - always http://127.0.0.1
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with _opener.open(message, timeout=timeout_s) as response:
        answer = json.load(response)
    if "error" in answer:
        raise LocalnetError(f"{method}: {answer['error']['message']}")
    return answer["result"]
