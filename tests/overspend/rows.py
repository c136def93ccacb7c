"""The raw rows, read with plain SQL, and what payees have, asked of the chain's node: past all that counts for us."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import psycopg

from foundation.kernel.assets import Asset
from services.models import Service
from tests.overspend.evidence import Counted, Entry, Paid
from tests.support.localnets import EVM

_ENTRIES = """
    SELECT id, agent_id, idempotency_key, service, amount::numeric, asset, result = 'approved', created_at, payment_id,
           result = 'held', explanation_json::json->>'heldBy',
           ARRAY(SELECT l->>'agentId' FROM json_array_elements(explanation_json::json->'levels') l)
      FROM ledger_logentry WHERE agent_id = ANY (%s) ORDER BY id
"""
_PAYMENTS = """
    SELECT p.id, p.agent_id, p.entry_id, p.amount, COALESCE(p.approved_at, p.created_at),
           (SELECT count(*) FROM payments_leg l JOIN payments_settlement s USING (tx)
             WHERE l.payment_id = p.id AND NOT l.is_void AND l.skipped IS NULL
               AND s.state NOT IN ('replaced', 'expired', 'failed'))
      FROM payments_payment p WHERE p.agent_id = ANY (%s) ORDER BY p.id
"""
_COUNTED = """
    SELECT level_id, payment_id, amount, at FROM ledger_levelpayment WHERE level_id = ANY (%s) ORDER BY level_id, number
"""


def read_rows(
    connection: "psycopg.Connection[Any]", agents: Sequence[str]
) -> tuple[list[Entry], list[Paid], list[Counted]]:
    """Read what the log and the payments say of some agents, and what these count of those below them."""
    found = connection.execute(_ENTRIES, [list(agents)])
    entries = [replace(Entry(*row), levels=tuple(levels)) for *row, levels in found]
    payments = [Paid(*row) for row in connection.execute(_PAYMENTS, [list(agents)])]
    return entries, payments, [Counted(*row) for row in connection.execute(_COUNTED, [list(agents)])]


def read_arrived(services: Sequence[Service]) -> Mapping[tuple[str, str], Decimal]:
    """Read what each service has on the chain, in units of each asset; none had anything before."""
    found = {}
    for service in services:
        for asset in EVM.assets:
            units = EVM.balance_of(Asset(asset), service.address)
            if units:
                found[service.id, str(asset)] = Decimal(units).scaleb(-asset.decimals)
    return found
