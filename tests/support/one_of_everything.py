"""Rows for every page of the console."""

from dataclasses import replace
from decimal import Decimal

import pytest

from foundation.kernel.errors import ServiceNotApproved
from foundation.kernel.times import utc_now
from ledger.models import LogEntry
from payments.models import Outflow, PayeeState, Withdrawal
from policy.operations import pause_agent
from policy.shadows import begin_shadow
from tests.support.deposits import make_deposit_aside
from tests.support.factories import decide, make_agent, make_api_key, make_service, new_address, new_name
from tests.support.reconciliations import make_comparison
from tests.support.trees import make_child
from tests.support.webhook_rows import make_attempt, make_delivery, make_endpoint


def make_one_of_everything() -> LogEntry:
    """Make one of everything that the console shows; returns an approved log entry."""
    make_deposit_aside()
    make_comparison("eip155:31337")
    Outflow.objects.create(
        chain="eip155:31337", tx=new_name("tx"), log_index=0, block_number=1, amount=1, why="R", found_at=utc_now()
    )
    PayeeState.objects.create(chain="eip155:31337", address=new_address(), state={}, observed_at=utc_now())
    parent = make_agent()
    agent = make_child(parent, hourly_limit=Decimal(40), payments_per_day=90, payee_daily_limit=Decimal(45))
    pause_agent(make_child(agent).pk, by="fiona")
    begin_shadow(agent.id, change=lambda limits: replace(limits, max_per_payment=Decimal(2)), by="fiona", reason="R")
    service = make_service(webhook_url="https://hooks.example.com/")
    Withdrawal.objects.create(
        reference=new_name("wdr"), chain="eip155:31337", escrow="", asset="USDC", amount=1, agent=agent,
        recipient=new_address(), author="fiona", reason="R", created_at=utc_now(),
    )  # fmt: skip
    make_api_key(agent=agent)
    make_attempt(make_delivery(make_endpoint()))
    decide(make_child(make_agent(approval_above=Decimal(5))), service, "6.25")
    with pytest.raises(ServiceNotApproved):
        decide(agent, make_service(approved=False), "1")
    return decide(agent, service, "2.5")
