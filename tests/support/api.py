"""A client of the API, in process."""

import json
from typing import Any

from django.test import Client

from tests.support.factories import new_name


class Api:
    """An API client with a key of its own, in process. Bodies are Python values, or bytes to be sent raw."""

    def __init__(self, key: str | None) -> None:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        self._client = Client(headers=headers, SERVER_NAME="localhost", raise_request_exception=False)

    def get(self, path: str, query: dict[str, Any] | None = None, **headers: str) -> Any:
        return self._client.get(path, query, headers=headers)

    def post(self, path: str, body: Any, content_type: str = "application/json", **headers: str) -> Any:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._client.post(path, data, content_type=content_type, headers=headers)

    def send(self, method: str, path: str, body: bytes = b"", content_type: str = "", **headers: str) -> Any:
        """Send any method, with a `Content-Type` only if it is named."""
        return self._client.generic(method, path, body, content_type=content_type, headers=headers)

    def leave_for(self, address: str) -> None:
        """Send what follows from another address."""
        self._client.defaults["REMOTE_ADDR"] = address

    def pay(self, body: Any, key: str | None = None) -> Any:
        """Request a payment, with an idempotency key of its own unless one is given."""
        return self.post("/v1/payments/request", body, idempotency_key=key or new_name("key"))
