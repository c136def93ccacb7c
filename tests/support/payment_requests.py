"""Requests for payments, and the payments that come of them on a fake chain."""

import hashlib
from datetime import datetime, timedelta
from decimal import Decimal

from django.conf import settings

from foundation.kernel.assets import Asset
from ledger.models import LogEntry
from payments.deciding.operations import request_payment
from payments.deciding.requests import Environment, PaymentRequest
from payments.models import Payment
from policy.models import Agent
from policy.signer import local_signer
from services.models import Service
from tests.support.factories import make_service, new_address, new_name, seen_by
from tests.support.fake_chain import FakeChain


def make_service_on(chain: FakeChain, *, webhook_url: str | None = None) -> Service:
    """Make an approved USDC service whose recipient is on a fake chain."""
    service = make_service(webhook_url=webhook_url)
    address = new_address()
    Service.objects.filter(pk=service.pk).update(
        chain=chain.name, address=address, approved_recipient=f"{chain.name}:{address}"
    )
    return Service.objects.get(pk=service.pk)


def make_request(agent: Agent, service: Service, amount: str = "1.00", key: str | None = None) -> PaymentRequest:
    """Make a well-formed request; its fingerprint depends on amount and service."""
    return PaymentRequest(
        agent_id=agent.id,
        service=service.id,
        amount=Decimal(amount),
        amount_text=amount,
        asset=Asset(agent.asset),
        reason="A test",
        metadata_json=None,
        idempotency_key=key or new_name("key"),
        fingerprint=hashlib.sha256(f"{service.id} {amount}".encode()).digest(),
    )


def environment_of(chain: FakeChain, now: datetime | None = None, max_age: timedelta = timedelta.max) -> Environment:
    """Let decisions depend on a fake chain and a chosen clock."""
    return Environment(
        signer=local_signer(),
        chains={chain.name: chain},
        max_chain_state_age=max_age,
        wake=lambda _: None,
        refusals_per_minute=settings.REFUSALS_PER_MINUTE,
        now=now,
    )


def pay_on(
    chain: FakeChain, agent: Agent, service: Service, amount: str = "1.00", now: datetime | None = None
) -> Payment:
    """Have a payment approved on a fake chain."""
    with seen_by(now, chain.name):
        entry: LogEntry = request_payment(make_request(agent, service, amount), environment_of(chain, now)).entry
    return Payment.objects.get(pk=entry.payment_id)
