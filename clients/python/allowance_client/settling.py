"""Wait for the chain: ask again and again, less and less often."""

from allowance_client.errors import PaymentFailed, SettlementTimeout
from allowance_client.exchanges import Patience
from allowance_client.pages import read_with
from allowance_client.payment_models import PaymentState
from allowance_client.requests import get, path_of
from allowance_client.steps import Flow, Pause

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 3.0
_GROWTH = 1.5


def wait_settled(patience: Patience, payment_id: str, timeout_s: float) -> Flow[PaymentState]:
    """Wait until a payment is settled. Raises `PaymentFailed`, `SettlementTimeout`."""
    deadline = patience.clock() + timeout_s
    pause_s = _FIRST_PAUSE_S
    while True:
        reply = yield from patience.exchange(get(path_of("payments", payment_id)), until=deadline)
        payment = read_with(PaymentState.read, reply.raw)
        if payment.status == "settled":
            return payment
        if payment.status == "failed":
            raise PaymentFailed(payment)
        if patience.clock() + pause_s > deadline:
            raise SettlementTimeout(payment)
        yield Pause(pause_s)
        pause_s = min(pause_s * _GROWTH, _LONGEST_PAUSE_S)
