"""Payments that wait for a person, and their end."""

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from ledger.models import Hold, HoldAnswer, LogEntry
from payments.environment import payment_environment
from payments.holding.answering import answer_hold
from payments.holding.finishing import finish_hold
from policy.models import Agent
from services.models import Service
from tests.support.factories import decide, make_agent, make_service


def hold_payment(
    amount: str = "6", *, agent: Agent | None = None, service: Service | None = None, at: datetime | None = None
) -> Hold:
    """Have a payment held for a person's approval."""
    agent = agent or make_agent(approval_above=Decimal(5))
    return Hold.objects.get(entry=decide(agent, service or make_service(), amount, at=at))


def end_hold(
    hold: Hold, answer: HoldAnswer | None = None, *, reason: str = "It is needed.", **environment: Any
) -> LogEntry:
    """Answer a hold as fiona, or let it end by itself, and decide it; returns the final entry."""
    if answer is not None:
        answer_hold(hold.pk, answer, by="fiona", reason=reason)
    final = finish_hold(hold.pk, replace(payment_environment(), wake=lambda _chain: None, **environment))
    assert final is not None
    return final
