"""What a client asked for and what it was told, read as the specification says, with nothing of the product's."""

import json
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

from tests.support.storms import Answer, Shot

# The connection broke, and what the service answers.
BROKEN, APPROVED, HELD, UNKNOWN_KEY, CONFLICT, TOO_MANY, UNAVAILABLE = 0, 201, 202, 401, 409, 429, 503


@dataclass(frozen=True)
class Told:
    """One request with its answer."""

    shot: Shot
    answer: Answer

    def __str__(self) -> str:
        return f"{self.agent} {self.key} {self.amount} {self.asset} was answered {self.status} {self.answer.text[:160]}"

    @property
    def agent(self) -> str:
        return str(self.shot.body["agentId"])

    @property
    def key(self) -> str:
        return self.shot.idempotency_key

    @property
    def question(self) -> tuple[str, str, str]:
        """What tells one request from another, however often and wherever it is sent."""
        return self.agent, self.key, str(self.shot.body)

    @property
    def service(self) -> str:
        return str(self.shot.body["service"])

    @property
    def amount(self) -> Decimal:
        return Decimal(self.shot.body["amount"])

    @property
    def asset(self) -> str:
        return str(self.shot.body["asset"])

    @property
    def status(self) -> int:
        return self.answer.status

    @property
    def is_approved(self) -> bool:
        return self.status == APPROVED

    @property
    def is_held(self) -> bool:
        return self.status == HELD

    @property
    def is_conflict(self) -> bool:
        return self.status == CONFLICT

    @property
    def is_decided(self) -> bool:
        """Whether a decision stands behind it, so that the log must have it."""
        return self.is_approved or self.is_held or self.is_conflict or self.log_id is not None

    @property
    def is_final(self) -> bool:
        """Whether the same request need not be sent again; one that is held is, until a person has answered."""
        return self.status == UNKNOWN_KEY or (self.is_decided and self.status not in (HELD, UNAVAILABLE))

    @property
    def payment_id(self) -> str:
        return str(self._body.get("id"))

    @property
    def created_at(self) -> datetime:
        return datetime.fromisoformat(self._body["createdAt"])

    @property
    def log_id(self) -> str | None:
        found = self._body.get("error", {}).get("logId")
        return None if found is None else str(found)

    @cached_property
    def _body(self) -> dict[str, Any]:
        try:
            body = json.loads(self.answer.text)
        except ValueError:
            return {}
        return body if isinstance(body, dict) else {}
