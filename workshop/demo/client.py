"""Send HTTP requests with an API key, as an agent's program does."""

import json
from typing import Any

import requests

_TIMEOUT_S = 30


class Api:
    """A client of the API. Every method returns the answer, whatever its status."""

    def __init__(self, url: str, key: str) -> None:
        self.url, self.key = url, key
        self._session = requests.Session()
        self._session.trust_env = False  # a proxy in the environment is not meant for 127.0.0.1
        self._session.headers["Authorization"] = f"Bearer {key}"

    def get(self, path: str, **query: Any) -> requests.Response:
        return self._session.get(f"{self.url}{path}", params=query, timeout=_TIMEOUT_S)

    def post(self, path: str, body: dict[str, Any]) -> requests.Response:
        return self._session.post(f"{self.url}{path}", json=body, timeout=_TIMEOUT_S)

    def pay(self, body: dict[str, Any], key: str) -> requests.Response:
        """Request a payment under an idempotency key."""
        return self._session.post(
            f"{self.url}/v1/payments/request",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Idempotency-Key": key},
            timeout=_TIMEOUT_S,
        )

    def is_ready(self) -> bool:
        """Tell whether the web server answers and has all that payments need."""
        try:
            return self.get("/readyz").ok
        except requests.RequestException:
            return False
