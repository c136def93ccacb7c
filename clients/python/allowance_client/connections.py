"""The one address, the one key, and how a request is put for httpx: what both drivers have."""

import time
from abc import ABC, abstractmethod
from typing import Any, Generic, NoReturn, TypeVar

import httpx

from allowance_client.addresses import read_api_key, read_base_url
from allowance_client.exchanges import Patience
from allowance_client.operations import Operations
from allowance_client.steps import Request

Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)
VERSION = "0.3.0"
_CONNECT_S = 10.0


class Driver(ABC, Generic[Http]):
    """What both drivers have: the address, the key, and how a request is put for httpx.

    `agent_id`: the agent that is meant where a call names none; None: that of the bound key. `http`: a client of yours,
    which stays open. `timeout_s`: for one answer. `patience_s`: for how long failures that stored nothing are repeated;
    0: never. `allow_http`: send the key to another machine over plain http, too.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        agent_id: str | None = None,
        http: Http | None = None,
        *,
        timeout_s: float = 20,
        patience_s: float = 60,
        allow_http: bool = False,
    ) -> None:
        self._base_url = read_base_url(base_url, allow_http=allow_http)
        self._authorization = f"Bearer {read_api_key(api_key)}"
        self._timeout_s = timeout_s
        self.operations = Operations(agent_id, Patience(patience_s))
        self._is_own = http is None
        # A proxy of the environment would read what goes over plain http, and is not meant for this machine.
        self._http: Http = self._open(trust_env=self._base_url.scheme == "https") if http is None else http

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._base_url}>"

    def __getstate__(self) -> NoReturn:
        raise TypeError("A client cannot be stored or copied: it holds an API key.")

    @abstractmethod
    def _open(self, *, trust_env: bool) -> Http: ...

    def _deadline(self, request: Request) -> float:
        """Set the moment by which an answer must be complete, however slowly it comes."""
        return time.monotonic() + self._timeout_s + request.extra_time_s

    def _arguments(self, request: Request) -> dict[str, Any]:
        time_s = self._timeout_s + request.extra_time_s
        return {
            "method": request.method,
            "url": f"{str(self._base_url).rstrip('/')}{request.path}",
            "params": dict(request.query) or None,
            "content": request.body,
            "headers": {
                "Accept": "application/json",
                "Accept-Encoding": "identity",  # so that a small answer stays small
                "Authorization": self._authorization,
                "User-Agent": f"allowance-client/{VERSION}",
                **request.headers,
            },
            "timeout": httpx.Timeout(time_s, connect=min(_CONNECT_S, time_s)),
            "follow_redirects": False,
            "auth": None,  # not what a given client would add
        }
