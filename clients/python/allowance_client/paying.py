"""Pay once: one purchase, one idempotency key, the same bytes in every attempt."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from allowance_client.demands import DemandedPayment
from allowance_client.errors import BudgetExceeded, ClientError, OutsideAllowedTime, UnexpectedAnswer
from allowance_client.exchanges import Patience
from allowance_client.members import MalformedJson
from allowance_client.payment_models import Payment
from allowance_client.requests import Amount, following_key, post, write_amount
from allowance_client.steps import Flow, Pause, Request

T = TypeVar("T")
Read_co = TypeVar("Read_co", covariant=True)


class Read(Protocol[Read_co]):
    """Reads an approved payment from an answer."""

    def __call__(self, raw: Mapping[str, Any], *, idempotency_key: str, is_replay: bool) -> Read_co: ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """A payment as a caller names it: without an agent and an asset, if they go without saying."""

    service: str
    amount: Amount
    reason: str
    asset: str | None
    metadata: Mapping[str, Any] | None
    agent_id: str | None

    def body(self, agent_id: str, asset: str) -> dict[str, Any]:
        """Write the request's body."""
        body: dict[str, Any] = {
            "agentId": agent_id,
            "service": self.service,
            "amount": write_amount(self.amount),
            "asset": asset,
            "reason": self.reason,
        }
        return body if self.metadata is None else {**body, "metadata": self.metadata}


@dataclass(frozen=True, slots=True)
class PaymentIntent:
    """What is to be paid: the request's body, the purchase's key, and for how long the answer may wait for a block."""

    body: Mapping[str, Any]
    key: str
    wait_s: int | None

    def request(self, key: str) -> Request:
        """Write the request under a key."""
        headers = {"Idempotency-Key": key}
        if self.wait_s:
            headers["Prefer"] = f"wait={self.wait_s}"
        return post("/v1/payments/request", self.body, headers, extra_time_s=self.wait_s or 0)


def pay(patience: Patience, intent: PaymentIntent, wait_until_allowed_s: float) -> Flow[Payment]:
    """Request a payment. After a stored refusal that time cures, ask again under the purchase's following key.

    That key is derived, not made: whoever starts anew with the first key meets the stored refusal, then what became of
    the following key, and pays nothing twice.
    """
    deadline = patience.clock() + wait_until_allowed_s
    number, key = 1, intent.key
    while True:
        try:
            return (yield from _ask(patience, intent.request(key), key, Payment.read))
        except (BudgetExceeded, OutsideAllowedTime) as refusal:
            pause_s = _wait_for(refusal, patience)
            if pause_s is None or patience.clock() + pause_s > deadline:
                raise
        yield Pause(pause_s)
        number += 1
        key = following_key(intent.key, number)


def pay_demand(patience: Patience, body: Mapping[str, Any], key: str) -> Flow[DemandedPayment]:
    """Request what a payee's 402 asks for; see `pay`."""
    request = post("/v1/payments/x402", body, {"Idempotency-Key": key})
    return (yield from _ask(patience, request, key, DemandedPayment.read))


def _ask(patience: Patience, request: Request, key: str, read: Read[T]) -> Flow[T]:
    try:
        reply = yield from patience.exchange(request)
        return read(reply.raw, idempotency_key=key, is_replay=reply.is_replay)
    except MalformedJson as error:
        unexpected = UnexpectedAnswer(f"The answer is not as the contract has it. {error}")
        unexpected.idempotency_key = key
        raise unexpected from error
    except ClientError as error:
        error.idempotency_key = key
        raise


def _wait_for(refusal: BudgetExceeded | OutsideAllowedTime, patience: Patience) -> float | None:
    """Tell for how many seconds a refusal holds, by the server's clock if it can; None: waiting does not help."""
    if refusal.retry != "new_key" or refusal.allowed_at is None:
        return None
    if refusal.retry_after_s is not None:
        return refusal.retry_after_s
    return max(0.0, (refusal.allowed_at - patience.now()).total_seconds())
