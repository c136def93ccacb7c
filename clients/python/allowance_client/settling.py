"""Wait for a person's answer, and for the chain: ask again and again, less and less often."""

from collections.abc import Callable

from allowance_client.errors import ApprovalDeclined, ApprovalPending, PaymentFailed, SettlementTimeout
from allowance_client.exchanges import Patience
from allowance_client.pages import read_with
from allowance_client.payment_models import PaymentState
from allowance_client.requests import get, path_of
from allowance_client.steps import Flow, Pause

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 3.0
_GROWTH = 1.5


def wait_settled(patience: Patience, payment_id: str, timeout_s: float) -> Flow[PaymentState]:
    """Wait until a payment is settled. Raises `PaymentFailed`, `ApprovalDeclined`, `SettlementTimeout`."""
    deadline = patience.clock() + timeout_s
    payment = yield from _wait(patience, payment_id, deadline, lambda one: one.status in {"settled", "failed"})
    if payment.status == "failed":
        raise PaymentFailed(payment)
    if payment.status != "settled":
        raise SettlementTimeout(payment)
    return payment


def wait_until_decided(patience: Patience, payment_id: str, deadline: float) -> Flow[PaymentState]:
    """Wait until a moment of the clock while a person has to approve a payment.

    Raises `ApprovalDeclined`, `ApprovalPending`.
    """
    payment = yield from _wait(patience, payment_id, deadline, lambda one: not one.is_pending)
    if payment.is_pending:
        raise ApprovalPending(payment)
    return payment


def _wait(
    patience: Patience, payment_id: str, deadline: float, is_over: Callable[[PaymentState], bool]
) -> Flow[PaymentState]:
    """Read a payment until that is over, or the time. Raises `ApprovalDeclined`: it will never be paid."""
    pause_s = _FIRST_PAUSE_S
    while True:
        reply = yield from patience.exchange(get(path_of("payments", payment_id)), until=deadline)
        payment = read_with(PaymentState.read, reply.raw)
        if payment.is_declined:
            raise ApprovalDeclined.of(payment)
        if is_over(payment) or patience.clock() + pause_s > deadline:
            return payment
        yield Pause(pause_s)
        pause_s = min(pause_s * _GROWTH, _LONGEST_PAUSE_S)
