"""Payments of several agents that are decided together."""

from ledger.models import LogEntry
from payments.deciding.operations import decide_together
from payments.models import Payment
from tests.support.factories import make_agent
from tests.support.payment_requests import environment_of, make_request
from tests.support.scenes import Scene


def pay_together(scene: Scene, count: int = 3, *, sends: bool = True) -> list[Payment]:
    """Have agents of their own each pay the scene's service, decided together."""
    requests = [make_request(make_agent(), scene.service) for _ in range(count)]
    entries = decide_together(requests, environment_of(scene.chain), wait_s=None)
    payments = []
    for entry in entries:
        assert isinstance(entry, LogEntry), entry
        payments.append(Payment.objects.get(pk=entry.payment_id))
    if sends:
        scene.broadcast()
    return payments
