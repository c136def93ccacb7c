"""The values of a step: what it promises, what was requested and what was answered."""

from dataclasses import dataclass, field
from typing import Any

import requests

from foundation.kernel.assets import Asset


@dataclass(frozen=True, slots=True)
class Refusal:
    """A promised refusal: its status and code, the rule that decides, and members that `error` has to have.

    `waits` promises a moment, `allowedAt`, at which the same payment would fit; `says`, words of the explanation.
    """

    status: int
    code: str
    rule: str
    members: dict[str, str] = field(default_factory=dict)
    waits: bool = False
    says: str = ""

    def __str__(self) -> str:
        numbers = "".join(f", {name} {value}" for name, value in self.members.items())
        words = f', "{self.says}"' if self.says else ""
        return f"{self.status} {self.code}, rule {self.rule}{numbers}{', allowedAt' if self.waits else ''}{words}"

    def is_kept_by(self, answer: requests.Response) -> bool:
        error = answer.json().get("error", {})
        expected = {"code": self.code, "rule": self.rule, **self.members}
        return (
            answer.status_code == self.status
            and expected.items() <= error.items()
            and self.says in error.get("message", "")
            and bool(error.get("logId"))
            and bool(error.get("allowedAt")) == self.waits
            and ("Retry-After" in answer.headers) == (self.waits or self.status == requests.codes.unavailable)
        )


@dataclass(frozen=True, slots=True)
class Registration:
    """A payee's registration: where it is paid, and where its webhooks go, if anywhere."""

    service: str
    name: str
    recipient: str
    asset: Asset
    webhook_url: str | None = None

    @property
    def body(self) -> dict[str, Any]:
        """The request's body."""
        body = {"id": self.service, "name": self.name, "recipient": self.recipient, "asset": self.asset}
        return body if self.webhook_url is None else {**body, "webhookUrl": self.webhook_url}


@dataclass(frozen=True, slots=True)
class Order:
    """A payment that an agent wants: an amount of an asset to a service."""

    agent: str
    service: str
    amount: str
    asset: Asset

    def __str__(self) -> str:
        return f"{self.agent} pays {self.service} {self.amount} {self.asset}"

    def body(self, run: int) -> dict[str, Any]:
        """Write the body of a request for it, in one run of the story."""
        asked = {"agentId": self.agent, "service": self.service, "amount": self.amount, "asset": self.asset}
        return {**asked, "reason": "The demo's story", "metadata": {"run": run}}


@dataclass(frozen=True, slots=True)
class Payment:
    """A request as it was sent, and the answer it got."""

    order: Order
    body: dict[str, Any]
    key: str
    answer: requests.Response
