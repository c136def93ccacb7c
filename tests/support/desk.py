"""A payment request that would be approved, to be written byte by byte."""

import json

from payments.models import Payment
from tests.support.factories import make_agent, make_api_key, new_name
from tests.support.localnets import EVM


class Desk:
    """A payment request that would be approved, to be written as one likes."""

    def __init__(self, url: str) -> None:
        self.url, self.key, self.agent = url, make_api_key(), make_agent()
        self.body = json.dumps(
            {
                "agentId": self.agent.id,
                "service": EVM.make_service().id,
                "amount": "0.10",
                "asset": "USDC",
                "reason": "x",
            }
        ).encode()

    def head(self, *headers: str, key: str | None = None, idempotency: tuple[str, ...] | None = None) -> bytes:
        names = (new_name("key"),) if idempotency is None else idempotency
        lines = [
            "POST /v1/payments/request HTTP/1.1", "Host: localhost", f"X-API-Key: {key or self.key}",
            *(f"Idempotency-Key: {name}" for name in names), *headers,
        ]  # fmt: skip
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    @property
    def length(self) -> str:
        return f"Content-Length: {len(self.body)}"

    def chunks(self, size: int = 7) -> bytes:
        parts = [self.body[start : start + size] for start in range(0, len(self.body), size)]
        return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)

    @property
    def paid(self) -> int:
        return Payment.objects.filter(agent=self.agent).count()
