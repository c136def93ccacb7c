"""The raw rows, read with plain SQL, and what payees have, asked of the chain's node: past all that counts for us."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import psycopg

from foundation.kernel.assets import Asset
from services.models import Service
from tests.overspend.evidence import Entry, Paid
from tests.support.localnets import EVM

_ENTRIES = """
    SELECT id, agent_id, idempotency_key, service, amount::numeric, asset, result = 'approved', created_at, payment_id,
           result = 'held', explanation_json::json->>'heldBy'
      FROM ledger_logentry WHERE agent_id = ANY (%s) ORDER BY id
"""
_PAYMENTS = """
    SELECT p.id, p.agent_id, p.entry_id, p.amount, COALESCE(p.approved_at, p.created_at),
           (SELECT count(*) FROM payments_leg l JOIN payments_settlement s USING (tx)
             WHERE l.payment_id = p.id AND NOT l.is_void AND l.skipped IS NULL
               AND s.state NOT IN ('replaced', 'expired', 'failed'))
      FROM payments_payment p WHERE p.agent_id = ANY (%s) ORDER BY p.id
"""


def read_rows(connection: "psycopg.Connection[Any]", agents: Sequence[str]) -> tuple[list[Entry], list[Paid]]:
    """Read what the log and the payments say of some agents."""
    entries = [Entry(*row) for row in connection.execute(_ENTRIES, [list(agents)])]
    return entries, [Paid(*row) for row in connection.execute(_PAYMENTS, [list(agents)])]


def read_arrived(services: Sequence[Service]) -> Mapping[tuple[str, str], Decimal]:
    """Read what each service has on the chain, in units of each asset; none had anything before."""
    found = {}
    for service in services:
        for asset in EVM.assets:
            units = EVM.balance_of(Asset(asset), service.address)
            if units:
                found[service.id, str(asset)] = Decimal(units).scaleb(-asset.decimals)
    return found
