"""Payments that wait for a person: held, answered and ended, at moments of one's own."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from foundation.kernel.errors import ContractError
from ledger.models import Hold, HoldAnswer, LogEntry
from payments.deciding.answers import refusal
from payments.deciding.requests import Environment
from payments.environment import payment_environment
from payments.holding.answering import answer_hold
from payments.holding.finishing import finish_hold
from policy.models import Agent
from services.models import Service
from tests.support.factories import make_agent, seen_by

REASON = "It is needed."


def asks_above(amount: str = "5", **more: Any) -> Agent:
    """Make an agent whose payments above an amount a person has to approve."""
    return make_agent(approval_above=Decimal(amount), **more)


def environment_at(now: datetime | None = None, **changes: Any) -> Environment:
    """Give an environment that wakes nobody; at a moment of one's own, every state of a chain is new enough."""
    age = {} if now is None else {"max_chain_state_age": timedelta.max}
    return replace(payment_environment(), **{"wake": lambda _chain: None, "now": now, **age, **changes})


def hold_of(held: LogEntry) -> Hold:
    return Hold.objects.get(entry=held)


def say(
    held: LogEntry, answer: HoldAnswer = HoldAnswer.APPROVE, *, at: datetime | None = None, by: str = "fiona"
) -> None:
    """Answer a payment that waits."""
    answer_hold(str(held.payment_id), answer, by=by, reason=REASON, now=at)


def finish(held: LogEntry, at: datetime | None = None, **changes: Any) -> LogEntry | None:
    """Do what the worker does with a payment each second."""
    chain = Service.objects.filter(pk=held.service).values_list("chain", flat=True).first()
    with seen_by(at, chain):
        return finish_hold(str(held.payment_id), environment_at(at, **changes))


def end(held: LogEntry, answer: HoldAnswer = HoldAnswer.APPROVE, at: datetime | None = None) -> LogEntry:
    """Answer a payment that waits, and let the worker decide it."""
    say(held, answer, at=at)
    ended = finish(held, at)
    assert ended is not None
    return ended


def approve(held: LogEntry, at: datetime | None = None) -> LogEntry:
    return end(held, at=at)


def decline(held: LogEntry, at: datetime | None = None) -> LogEntry:
    return end(held, HoldAnswer.DECLINE, at=at)


def error_of(entry: LogEntry | None) -> ContractError:
    """Tell what the refusal of an entry is answered with."""
    assert entry is not None
    with pytest.raises(ContractError) as refused:
        raise refusal(entry)
    return refused.value
