"""What agents and payees do meanwhile: they send requests to the API, each with a key."""

from dataclasses import dataclass, replace
from typing import Any

import requests

from tests.support.factories import new_name
from workshop.tests.demo.running import wait_for

_TIMEOUT_S = 30
_PATIENCE_S = 90


@dataclass(frozen=True, slots=True)
class Agents:
    """Programs that have a key."""

    url: str
    key: str

    def with_key(self, key: str) -> "Agents":
        return replace(self, key=key)

    def get(self, path: str, **query: Any) -> requests.Response:
        return requests.get(f"{self.url}{path}", params=query, headers=self._headers(), timeout=_TIMEOUT_S)

    def register(self, service: str, recipient: str, asset: str = "USDC") -> str:
        """Register a payee; returns its status."""
        body = {"id": service, "name": service, "recipient": recipient, "asset": asset}
        answer = requests.post(f"{self.url}/v1/services", json=body, headers=self._headers(), timeout=_TIMEOUT_S)
        return str(answer.json()["status"])

    def pay(self, agent: str, service: str, amount: str, asset: str = "USDC", *, key: str = "") -> requests.Response:
        """Request a payment, under an idempotency key of its own unless one is given."""
        body = {"agentId": agent, "service": service, "amount": amount, "asset": asset, "reason": "The day's work"}
        headers = self._headers() | {"Idempotency-Key": key or new_name("day")}
        return requests.post(f"{self.url}/v1/payments/request", json=body, headers=headers, timeout=_TIMEOUT_S)

    def wait_until_settled(self, payment: requests.Response) -> Any:
        """Wait until the payee has the money; returns the payment."""
        path = f"/v1/payments/{payment.json()['id']}"
        wait_for(lambda: self.get(path).json()["status"] == "settled", _PATIENCE_S)
        return self.get(path).json()

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}


def why_refused(answer: requests.Response) -> tuple[int, str]:
    """Give the status and the rule of a refusal."""
    return answer.status_code, answer.json()["error"].get("rule", "")
