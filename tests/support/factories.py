"""What tests need to exist, made by the operations that make it in life. Every id is new: nothing is cleaned up."""

import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from ledger.models import LogEntry
from ledger.operations import fund_agent
from payments.deciding.operations import request_payment
from payments.deciding.requests import PaymentRequest
from payments.environment import payment_environment
from payments.models import ChainState
from policy.key_operations import create_api_key
from policy.limits import Limits
from policy.models import Agent, PolicyRevision
from policy.more_limits import MoreLimits
from policy.operations import create_agent
from services.models import Service
from services.operations import Registration, approve_service, register_service, set_tags

_numbers = itertools.count(1)


def new_name(prefix: str) -> str:
    """Make a name that no other test, and no other process, uses."""
    return f"{prefix}-{os.getpid()}-{os.urandom(4).hex()}-{next(_numbers)}"


def new_address() -> str:
    """Make an EVM address that nobody has."""
    return "0x" + os.urandom(20).hex()


def make_agent(
    *,
    asset: Asset = Asset.USDC,
    max_per_payment: str = "10",
    daily_limit: str = "50",
    weekly_limit: str = "100",
    balance: str = "1000",
    services: list[str] | None = None,
    **more: Any,
) -> Agent:
    """Make an active agent with a funded allowance; `more` are optional limits."""
    agent = create_agent(
        new_name("agent"),
        asset=asset,
        limits=Limits(
            Decimal(max_per_payment), Decimal(daily_limit), Decimal(weekly_limit), services, MoreLimits(**more)
        ),
        by="test",
    )
    if Decimal(balance):
        agent = fund_agent(agent.id, amount=Decimal(balance), by="test")
    return agent


def make_agent_of_old(agent_id: str, *, asset: Asset) -> Agent:
    """Make an agent whose id is any text, as agents were made before ids had a form."""
    agent = Agent.objects.create(id=agent_id, asset=asset, created_at=utc_now())
    limits = {"max_per_payment": 1, "daily_limit": 2, "weekly_limit": 3}
    PolicyRevision.objects.create(agent=agent, number=1, created_by="test", created_at=utc_now(), **limits)
    return agent


def make_service(
    *,
    asset: Asset = Asset.USDC,
    recipient: str | None = None,
    webhook_url: str | None = None,
    approved: bool = True,
    tags: Sequence[str] = (),
) -> Service:
    """Make a service on the embedded chain, approved unless told otherwise."""
    service, _ = register_service(
        Registration(
            id=new_name("service"),
            name="A payee",
            recipient=recipient or f"evm-localnet:{new_address()}",
            asset=asset,
            webhook_url=webhook_url,
        )
    )
    if tags:
        service = set_tags(service.id, tags, by="test")
    return approve_service(service.id, by="test") if approved else service


def decide(
    agent: Agent,
    service: Service | str,
    amount: str = "1",
    *,
    at: datetime | None = None,
    key: str | None = None,
    **environment: Any,
) -> LogEntry:
    """Request a payment of an agent at a moment of one's own; return the entry of an approved one.

    Moments of one agent must not go back, and chain state counts as fresh at any moment that is past.
    """
    request = PaymentRequest(
        agent_id=agent.id,
        service=service if isinstance(service, str) else service.id,
        amount=Decimal(amount),
        amount_text=amount,
        asset=Asset(agent.asset),
        reason="A test",
        metadata_json=None,
        idempotency_key=key or new_name("key"),
        fingerprint=bytes(32),
    )
    environment = {"now": at, "wake": lambda _chain: None, **environment}
    with seen_by(at, Service.objects.filter(pk=request.service).values_list("chain", flat=True).first()):
        return request_payment(request, replace(payment_environment(), **environment)).entry


@contextmanager
def seen_by(moment: datetime | None, chain: str | None) -> Iterator[None]:
    """Let a chain have been seen by a moment that is past, while something is decided as of then."""
    states = ChainState.objects.filter(chain=chain)
    later = [] if moment is None else list(states.filter(observed_at__gt=moment))
    if later:
        states.update(observed_at=moment)
    try:
        yield
    finally:
        for state in later:
            states.update(observed_at=state.observed_at)


def make_api_key(*, agent: Agent | None = None, scopes: list[str] | None = None, own_payees_only: bool = False) -> str:
    """Make an API key and return the key itself."""
    agent_id = agent.id if agent else None
    _, key = create_api_key(agent_id=agent_id, scopes=scopes, own_payees_only=own_payees_only, by="test")
    return key
