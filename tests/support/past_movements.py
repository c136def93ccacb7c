"""Movements of a balance as of moments that are past, as the decisions around them are."""

import random
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from ledger.models import BalanceMovement, LogEntry, MovementKind
from ledger.operations import move_balance
from policy.models import Agent
from policy.parents import lock_agent


def book(agent: Agent, at: datetime, **movement: Any) -> None:
    """Book a movement as of a moment that is past."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ledger.operations.utc_now", lambda: at)
        move_balance(lock_agent(agent.id), by="test", **movement)


def fund_at(agent: Agent, at: datetime, amount: str) -> None:
    book(agent, at, kind=MovementKind.FUNDING, amount=Decimal(amount))


def give_back_one(agent: Agent, at: datetime, chance: random.Random) -> None:
    """Give one of the agent's payments back, if there is one that was not yet."""
    returned = BalanceMovement.objects.filter(agent=agent, kind="return").values("payment_id")
    paid = LogEntry.objects.filter(agent=agent, result="approved").exclude(payment_id__in=returned).order_by("id")
    if paid:
        entry = chance.choice(list(paid))
        amount, spent_at = Decimal(entry.amount), entry.created_at
        book(agent, at, kind=MovementKind.RETURN, amount=amount, payment_id=entry.payment_id, spent_at=spent_at)
