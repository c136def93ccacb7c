"""Payments of several agents that are decided together."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from foundation.kernel.assets import Asset
from ledger.models import LogEntry
from payments.deciding.operations import decide_together
from payments.deciding.requests import Environment, PaymentRequest
from payments.environment import payment_environment
from payments.models import Payment
from services.models import Service
from tests.support.factories import make_agent, seen_by
from tests.support.local_chain import Localnet
from tests.support.payment_requests import environment_of, make_request
from tests.support.scenes import Scene


def pay_together(scene: Scene, count: int = 3, *, sends: bool = True) -> list[Payment]:
    """Have agents of their own each pay the scene's service, decided together."""
    requests = [make_request(make_agent(), scene.service) for _ in range(count)]
    payments = _decide(requests, environment_of(scene.chain))
    if sends:
        scene.broadcast()
    return payments


def pay_services(
    localnet: Localnet, services: Sequence[Service], amount: str = "1.00", now: datetime | None = None
) -> list[Payment]:
    """Have agents of their own each pay a service on an embedded chain, decided together; nothing is sent."""
    environment = replace(payment_environment(), wake=lambda _: None, now=now)
    requests = [make_request(make_agent(asset=Asset(one.asset)), one, amount) for one in services]
    with seen_by(now, localnet.caip2):
        return _decide(requests, environment)


def _decide(requests: Sequence[PaymentRequest], environment: Environment) -> list[Payment]:
    payments = []
    for entry in decide_together(requests, environment, wait_s=None):
        assert isinstance(entry, LogEntry), entry
        payments.append(Payment.objects.get(pk=entry.payment_id))
    return payments
