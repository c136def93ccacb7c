"""Pay once: one purchase, one idempotency key, the same bytes in every attempt."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from allowance_client.demands import DemandedPayment
from allowance_client.errors import (
    ApprovalDeclined,
    ApprovalPending,
    BudgetExceeded,
    ClientError,
    OutsideAllowedTime,
    UnexpectedAnswer,
)
from allowance_client.exchanges import Patience
from allowance_client.members import MalformedJson
from allowance_client.payment_models import Payment
from allowance_client.requests import Amount, following_key, post, write_amount
from allowance_client.settling import wait_until_decided
from allowance_client.steps import Flow, Pause, Request

T = TypeVar("T")
Read_co = TypeVar("Read_co", covariant=True)


class Read(Protocol[Read_co]):
    """Reads a payment from an answer."""

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
    """What is to be paid: the request's body, the purchase's key, and how long to wait for what.

    `wait_s`: for a block, by the server; `allowed_s`: until a limit lets it pass; `decided_s`: for a person.
    """

    body: Mapping[str, Any]
    key: str
    wait_s: int | None
    allowed_s: float = 0
    decided_s: float = 0

    def request(self, key: str) -> Request:
        """Write the request under a key."""
        headers = {"Idempotency-Key": key}
        if self.wait_s:
            headers["Prefer"] = f"wait={self.wait_s}"
        return post("/v1/payments/request", self.body, headers, extra_time_s=self.wait_s or 0)


def pay(patience: Patience, intent: PaymentIntent) -> Flow[Payment]:
    """Request a payment. After a stored refusal that time cures, ask again under the purchase's following key.

    That key is derived, not made: whoever starts anew with the first key meets the stored refusal, then what became of
    the following key, and pays nothing twice. A refusal of what a person was asked for is raised: under another key
    they would be asked once more.
    """
    deadline = patience.clock() + intent.allowed_s
    number, key = 1, intent.key
    while True:
        try:
            return (yield from _ask_until_decided(patience, intent.request(key), key, intent.decided_s, Payment.read))
        except (BudgetExceeded, OutsideAllowedTime) as refusal:
            pause_s = _wait_for(refusal, patience)
            if pause_s is None or patience.clock() + pause_s > deadline:
                raise
        yield Pause(pause_s)
        number += 1
        key = following_key(intent.key, number)


def pay_demand(patience: Patience, body: Mapping[str, Any], key: str, decided_s: float) -> Flow[DemandedPayment]:
    """Request what a payee's 402 asks for; see `pay`. Raises `ApprovalPending`: there is nothing to send it yet."""
    request = post("/v1/payments/x402", body, {"Idempotency-Key": key})
    payment = yield from _ask_until_decided(patience, request, key, decided_s, _read_demanded)
    if isinstance(payment, Payment):
        raise _with_key(ApprovalPending(payment), key)
    return payment


def _read_demanded(raw: Mapping[str, Any], *, idempotency_key: str, is_replay: bool) -> DemandedPayment | Payment:
    """Read what a payee's 402 asked for; while a person has to approve it, it is a payment without a payload."""
    read = Payment.read if raw.get("status") == "pending_approval" else DemandedPayment.read
    return read(raw, idempotency_key=idempotency_key, is_replay=is_replay)


def _ask_until_decided(patience: Patience, request: Request, key: str, decided_s: float, read: Read[T]) -> Flow[T]:
    """Ask; while a person has to approve it, wait for that, and ask with the same key what has become of it.

    Whoever starts anew with the key is answered the same, and pays nothing twice.
    """
    deadline = patience.clock() + decided_s
    while True:
        payment = yield from _ask(patience, request, key, read)
        if not (isinstance(payment, Payment) and payment.is_pending) or patience.clock() >= deadline:
            return payment
        try:
            yield from wait_until_decided(patience, payment.id, deadline)
        except ApprovalPending:
            return payment
        except ApprovalDeclined:
            continue  # the key's own answer is the whole refusal
        except ClientError as error:
            error.idempotency_key = key
            raise


def _ask(patience: Patience, request: Request, key: str, read: Read[T]) -> Flow[T]:
    try:
        reply = yield from patience.exchange(request)
        return read(reply.raw, idempotency_key=key, is_replay=reply.is_replay)
    except MalformedJson as error:
        raise _with_key(UnexpectedAnswer(f"The answer is not as the contract has it. {error}"), key) from error
    except ClientError as error:
        error.idempotency_key = key
        raise


def _with_key(error: ClientError, key: str) -> ClientError:
    error.idempotency_key = key
    return error


def _wait_for(refusal: BudgetExceeded | OutsideAllowedTime, patience: Patience) -> float | None:
    """Tell for how many seconds a refusal holds, by the server's clock if it can; None: waiting does not help."""
    if refusal.retry != "new_key" or refusal.allowed_at is None or "heldBy" in refusal.refusal.raw:
        return None
    if refusal.retry_after_s is not None:
        return refusal.retry_after_s
    return max(0.0, (refusal.allowed_at - patience.now()).total_seconds())
