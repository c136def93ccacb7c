"""JSON-RPC over HTTP with one node. Anything but an answer raises `NodeAway`.

The address of a node may hold a key of its provider: it appears in no log and in no error.
"""

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

from requests import RequestException, Response, Session
from requests.utils import get_netrc_auth
from urllib3.exceptions import HTTPError

from foundation.kernel.counters import RPC_REQUESTS

T = TypeVar("T")
# A method and its parameters.
Call = tuple[Any, ...]
# The errors of reading a malformed answer; OverflowError: a time that no calendar has.
MALFORMED = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError)

# A node that has not answered completely by then is treated as away.
TIMEOUT_S = 5
_CHUNK_BYTES = 2**16
# More than any receipt has, and what a process has room for several times. A longer answer counts as refused: what was
# asked for is asked for in parts.
MOST_BYTES = 2**25
# "Limit exceeded" (EIP-1474), and the codes that providers send with HTTP 429.
_BUSY_CODES = (-32005, -32029, 429)
# No key, no permission, too many requests, and the statuses of proxies whose node is away. Other statuses may come with
# an answer: some nodes refuse a call with HTTP 400 or 500 and an error object.
_AWAY_STATUSES = (401, 403, 407, 429, 502, 503, 504)
_TOO_LARGE = 413

# At DEBUG, urllib3 logs the path of every request, which may hold a key.
logging.getLogger("urllib3.connectionpool").setLevel(logging.INFO)


class RpcError(Exception):
    """A node's error for a call. `data` is what it sends in addition to its message, in any form."""

    def __init__(self, error: Any) -> None:
        error = error if isinstance(error, dict) else {"message": error}
        self.code = error.get("code")
        self.data = error.get("data")
        said = str(error.get("message", "no reason given"))
        # The text ends up in logs and rows: it must be one line, without control characters for a terminal.
        super().__init__("".join(one if one.isprintable() else " " for one in said)[:500])


class NodeAway(Exception):
    """Raise when a node gives no usable answer."""


class Connection:
    """The connection to one node; each thread and each forked process opens its own."""

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._local = threading.local()
        # All that may be told of an address.
        self.host = urlsplit(url).hostname or ""

    def ask(self, calls: Sequence[Call], check: Callable[[], None] = lambda: None) -> list[Any]:
        """Ask all calls in one request; each answer is a result or an `RpcError`. Raises `NodeAway`.

        If the node refuses so many calls, they go in several requests. Before each, `check` may raise `NodeAway`.
        """
        check()
        requests = [
            {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}
            for number, (method, *parameters) in enumerate(calls)
        ]
        body = self._post(requests if len(requests) > 1 else requests[0])
        if len(calls) > 1 and _is_refused(body):
            # The node refuses the request as a whole: it has too many calls.
            half = len(calls) // 2
            return self.ask(calls[:half], check) + self.ask(calls[half:], check)
        responses = _in_order(body if isinstance(body, list) else [body], len(calls))
        return [_result(response, call[0]) for response, call in zip(responses, calls, strict=True)]

    def read(self, calls: Sequence[Call], parse: Callable[[list[Any]], T]) -> T:
        """Ask all calls and read the answers. Raises `NodeAway`, also for an error or an answer that cannot be read."""
        answers = self.ask(calls)
        if refused := next((answer for answer in answers if isinstance(answer, RpcError)), None):
            raise NodeAway(f"it answers {', '.join(call[0] for call in calls)} with: {refused}")
        try:
            return parse(answers)
        except MALFORMED:
            raise NodeAway("its answer cannot be read") from None

    def _post(self, request: Any) -> Any:
        deadline = time.monotonic() + self._timeout_s
        RPC_REQUESTS.add(self.host)
        try:
            with self._session().post(
                self._url, json=request, timeout=self._timeout_s, stream=True, allow_redirects=False
            ) as response:
                if response.status_code in _AWAY_STATUSES:
                    raise NodeAway(f"HTTP {response.status_code}")
                body = None if response.status_code == _TOO_LARGE else _read(response, deadline)
                return {"error": {"message": "too large"}} if body is None else json.loads(body)
        except (RequestException, HTTPError, OSError, ValueError, RecursionError) as error:
            # Only the class of the error: its message contains the address.
            raise NodeAway(type(error).__name__) from None

    def _session(self) -> Session:
        # A connection must not be shared with the process that this one was forked from.
        if getattr(self._local, "process", None) != os.getpid():
            self._local.process, self._local.session = os.getpid(), _open_session(self._url)
        session: Session = self._local.session
        return session


def _open_session(url: str) -> Session:
    """Open a session that has read the proxies and certificates of the environment for a node once.

    `requests` would read the whole environment for every request, which takes as long as the request itself.
    """
    session = Session()
    read: dict[str, Any] = dict(session.merge_environment_settings(url, {}, None, None, None))
    session.proxies, session.verify, session.cert = read["proxies"], read["verify"], read["cert"]
    session.auth = get_netrc_auth(url)
    session.trust_env = False
    return session


def _read(response: Response, deadline: float) -> bytes | None:
    """Read a body piece by piece: the timeout of `requests` applies to each piece, this deadline to the whole.

    None: it is too large.
    """
    body = bytearray()
    while piece := response.raw.read1(_CHUNK_BYTES, decode_content=True):
        body += piece
        if len(body) > MOST_BYTES:
            return None
        if time.monotonic() > deadline:
            raise NodeAway("its answer does not end in time")
    return bytes(body)


def _is_refused(body: Any) -> bool:
    """Return whether several calls got one common error, bare or in a list, and not because the node is busy."""
    response = body[0] if isinstance(body, list) and len(body) == 1 else body
    if not isinstance(response, dict) or not response.get("error"):
        return False
    return RpcError(response["error"]).code not in _BUSY_CODES


def _in_order(responses: list[Any], count: int) -> list[dict[str, Any]]:
    """Sort the answers into the order of the calls, one for each."""
    if not all(isinstance(response, dict) for response in responses):
        raise NodeAway("it does not answer in JSON-RPC")
    if count == len(responses) == 1 and responses[0].get("id") is None and responses[0].get("error"):
        # A node that could not parse the request does not know its id.
        return responses
    by_id = {str(response.get("id")): response for response in responses}
    wanted = [str(number) for number in range(count)]
    if len(responses) != count or not by_id.keys() >= set(wanted):
        raise NodeAway("it did not answer each call once")
    return [by_id[number] for number in wanted]


def _result(response: dict[str, Any], method: str) -> Any:
    if response.get("error") is not None:
        error = RpcError(response["error"])
        # A query for more logs than the node allows gets the same code: then the node is not busy.
        if error.code in _BUSY_CODES and method != "eth_getLogs":
            raise NodeAway("it is busy")
        return error
    if "result" not in response:
        raise NodeAway("it does not answer in JSON-RPC")
    return response["result"]
