"""Payments that a restored backup has forgotten: approved, seen by others, rolled back, and yet made by their chain."""

import json
import logging
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db import transaction

from foundation.kernel.times import utc_now
from foundation.telemetry.log_lines import JsonLine
from ledger.receipts import receipt
from payments.models import Outflow, Payment
from payments.settling.progress import Step
from policy.models import Agent
from services.models import Service
from tests.support.factories import decide, new_name


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A payment of which only others know. `entry` is how the log was exported."""

    agent_id: str
    key: str
    payment_id: str
    escrow_id: str
    entry: dict[str, Any]
    outflow: Outflow

    @property
    def line(self) -> str:
        """The line that `worker` wrote of its transaction."""
        chain, tx = self.outflow.chain, self.outflow.tx
        step = Step(self.payment_id, self.agent_id, self.escrow_id, chain, tx, "broadcast")
        log = logging.getLogger("payments.settling.step_lines")
        record = log.makeRecord(log.name, logging.INFO, "", 0, "", (), None, extra=step.members)
        return JsonLine("worker").format(record)


def forget(agent: Agent, service: Service, amount: str = "1.00", **outflow: Any) -> Forgotten:
    """Let a payment be approved and forgotten; the outflow by which the chain made it was found."""
    key = new_name("key")
    before = transaction.savepoint()
    entry = decide(agent, service, amount, key=key)
    payment, exported = Payment.objects.get(pk=entry.payment_id), receipt(entry)
    transaction.savepoint_rollback(before)
    agent.refresh_from_db()
    facts = {
        "chain": payment.chain, "tx": entry.tx, "log_index": 0, "block_number": 1, "asset": payment.asset,
        "amount": Decimal(amount), "recipient": payment.recipient, "escrow_id": payment.escrow_id,
        "why": "It is neither a payment nor a withdrawal of ours.", "found_at": utc_now(),
    }  # fmt: skip
    found = Outflow.objects.create(**(facts | outflow))
    exported = json.loads(json.dumps(exported))
    return Forgotten(agent.id, key, payment.pk, payment.escrow_id, exported, found)
