"""A network that says what it is told to, and a clock that moves when somebody waits: what flows are played on."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from allowance_client.exchanges import Patience
from allowance_client.operations import Operations
from allowance_client.steps import Answer, Flow, Lost, Request

NOW = datetime(2026, 5, 14, 18, 42, 11, 123_000, tzinfo=UTC)
LOST = Lost("ReadTimeout: ")
PAYMENT = {
    "id": "pay_01m7x0a08w7gfh03fpnr0ejw1t",
    "status": "approved",
    "amount": "0.50",
    "asset": "USDC",
    "service": "shop",
    "tx": "0x01",
    "policyRevision": "polrev_1",
    "spentToday": "0.50",
    "createdAt": "2026-05-14T18:42:11.123Z",
}
BUDGET = {
    "agentId": "agent",
    "status": "active",
    "asset": "USDC",
    "balance": "10.00",
    "spentToday": "0.00",
    "spentThisWeek": "0.00",
    "dailyLimit": "5.00",
    "weeklyLimit": "5.00",
    "maxPerPayment": "5.00",
    "policyRevision": "polrev_1",
}
ME = {
    "keyId": "key",
    "name": "test",
    "scopes": ["payments", "budgets"],
    "agentId": "agent",
    "createdAt": "2026-05-14T18:42:11.123Z",
    "expiresAt": None,
    "requestsPerMinute": 600,
}
ASKED = {"service": "shop", "amount": "0.50", "asset": "USDC", "reason": "A test"}


class Stage:
    """Gives the outcomes in turn, and remembers what was sent and for how long somebody waited."""

    def __init__(self, *outcomes: Answer | Lost, patience_s: float = 60, agent_id: str | None = "agent") -> None:
        self.requests: list[Request] = []
        self.pauses: list[float] = []
        self._outcomes = iter(outcomes)
        self._time_s = 0.0
        patience = Patience(
            patience_s,
            clock=lambda: self._time_s,
            now=lambda: NOW + timedelta(seconds=self._time_s),
            chance=lambda: 1.0,
        )
        self.operations = Operations(agent_id, patience)

    @property
    def keys(self) -> list[str]:
        """The idempotency keys in the order in which they were sent."""
        return [request.headers["Idempotency-Key"] for request in self.requests]

    def run(self, flow: Flow[Any]) -> Any:
        outcome: Answer | Lost | None = None
        while True:
            try:
                step = flow.send(outcome)
            except StopIteration as end:
                return end.value
            if isinstance(step, Request):
                self.requests.append(step)
                outcome = next(self._outcomes)
            else:
                self.pauses.append(step.seconds)
                self._time_s += step.seconds
                outcome = None

    def pay(self, **changes: Any) -> Any:
        return self.run(self.operations.pay(**{**ASKED, **changes}))


def answer(status: int, body: Any, **headers: str) -> Answer:
    """Make an answer; a header is named with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, named, body if isinstance(body, bytes) else json.dumps(body).encode())


def paid(**changes: Any) -> Answer:
    return answer(201, {**PAYMENT, **changes})


def refused(status: int, code: str, *, retry_after: str | None = None, **members: Any) -> Answer:
    headers = {} if retry_after is None else {"retry_after": retry_after}
    return answer(status, {"error": {"code": code, "message": "No.", **members}}, **headers)


def over_budget(*, allowed_in_s: float | None = 30, retry_after: str | None = None, **members: Any) -> Answer:
    """Refuse by the daily limit; the same payment fits `allowed_in_s` after the stage begins."""
    allowed_at = None if allowed_in_s is None else (NOW + timedelta(seconds=allowed_in_s)).isoformat()
    return refused(
        422, "budget_exceeded", retry="new_key", rule="under_daily_limit", limit="5.00", spent="4.75", requested="0.50",
        remaining="0.25", allowedAt=allowed_at, retry_after=retry_after, **members,
    )  # fmt: skip
