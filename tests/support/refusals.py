"""Payments that are refused, and what a refusal leaves behind."""

from typing import Any

import pytest

from foundation.kernel.errors import BudgetExceeded
from ledger.models import BalanceMovement, LogEntry
from payments.models import Payment
from policy.models import Agent
from tests.support.factories import decide, make_agent


def wealthy(**limits):
    """Make an agent that only the limits given here hold back."""
    plenty: dict[str, Any] = dict.fromkeys(("max_per_payment", "daily_limit", "weekly_limit", "balance"), "1000")
    return make_agent(**{**plenty, **limits})


def body_for(agent, service, amount="1", asset="USDC"):
    service_id = service if isinstance(service, str) else service.id
    return {"agentId": agent.id, "service": service_id, "amount": amount, "asset": asset, "reason": "A test"}


def refused(agent, service, amount="1", *, at=None):
    """Ask for a payment that is over a limit; return the members of its refusal."""
    with pytest.raises(BudgetExceeded) as refusal:
        decide(agent, service, amount, at=at)
    return refusal.value.details


def assert_nothing_moved(agent):
    now = Agent.objects.get(pk=agent.id)
    assert (now.balance, now.spent_total) == (agent.balance, agent.spent_total)
    assert not Payment.objects.filter(agent=agent).exists()
    assert not BalanceMovement.objects.filter(agent=agent, kind="payment").exists()


def assert_logged(agent, error, rule):
    """The entry that a refusal names is there, blocked by the rule it names."""
    entry = LogEntry.objects.get(pk=error["logId"])
    assert (entry.agent_id, entry.result, entry.rule) == (agent.id, "blocked", rule)
    assert (error["rule"], error["policyRevision"]) == (rule, f"polrev_{entry.policy_revision}")
    assert (entry.payment_id, entry.tx) == (None, None)
