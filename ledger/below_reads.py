"""Read what agents below one have paid while they were below it, for `ledger.replay`: as that agent counts it."""

from collections.abc import Collection, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from foundation.database import fetch_briefly
from ledger.past import Move, Past
from ledger.spends_before import read_decisions

# The agent whose policy asked a person about a decision `d` that ended a hold; null: nobody was asked.
ASKER = """
    CASE WHEN position('"heldBy"' IN d.explanation_json) > 0 THEN (
         SELECT COALESCE(h.explanation_json::json #>> '{level,agentId}', h.agent_id) FROM ledger_logentry h
          WHERE h.id = d.explanation_json::json->>'heldBy') END
"""
# The movement of a payment tells whose it is, and so where the log has it.
_PAYMENTS = f"""
    SELECT json_build_array(
               p.at, d.id, p.payee, d.amount, d.asset, d.rule, true, false, p.payment_id, (
               SELECT count(*) FROM ledger_clockrepair r WHERE r.agent_id = p.level_id AND r.repaired_at < p.at),
               true, 1, asker IS NOT NULL, COALESCE(asker <> %(agent)s, false), d.agent_id, p.number)
      FROM (SELECT * FROM ledger_levelpayment l WHERE l.level_id = %(agent)s AND l.at > %(since)s
             ORDER BY l.at DESC, l.number DESC LIMIT %(most)s) p
      JOIN ledger_balancemovement m ON m.payment_id = p.payment_id AND m.kind = 'payment'
      JOIN ledger_logentry d ON d.agent_id = m.agent_id AND d.created_at = m.created_at AND d.payment_id = p.payment_id
                            AND d.result = 'approved',
           LATERAL (SELECT {ASKER} AS asker) asked
"""  # noqa: S608 - our own text
_RETURNS = """
    SELECT m.created_at, m.amount, l.at, l.payment_id, l.payee, true
      FROM ledger_levelpayment l JOIN ledger_balancemovement m ON m.payment_id = l.payment_id AND m.kind = 'return'
     WHERE l.level_id = %(agent)s AND l.is_returned AND m.created_at > %(since)s
     ORDER BY m.created_at, m.id
"""
_SPENT = "SELECT (ledger_below_since(%(agent)s, '-infinity'))[1]"
_PAID = """
    SELECT p.payee, (SELECT l.payee_number FROM ledger_levelpayment l
                      WHERE l.level_id = %(agent)s AND l.payee = p.payee ORDER BY l.at DESC, l.number DESC LIMIT 1)
                    - COALESCE(returned.payments, 0)
      FROM unnest(%(payees)s::text[]) p(payee)
      LEFT JOIN (SELECT l.payee, count(*) AS payments FROM ledger_levelpayment l
                  WHERE l.level_id = %(agent)s AND l.is_returned GROUP BY l.payee) returned USING (payee)
"""


def read_payments_below(asked: Mapping[str, Any]) -> list[Past]:
    """Read the newest payments below an `agent`, made after `since`, as many as `most`."""
    return read_decisions(_PAYMENTS, asked)


def read_returns_below(agent_id: str, since: datetime) -> list[Move]:
    """Read which payments below an agent were given back after a moment."""
    return [Move(*row) for row in fetch_briefly(_RETURNS, {"agent": agent_id, "since": since})]


def read_spent_below(agent_id: str) -> Decimal:
    """Read what was paid below an agent, ever, without what was given back."""
    ((spent,),) = fetch_briefly(_SPENT, {"agent": agent_id})
    return Decimal(spent)


def read_paid_below(agent_id: str, payees: Collection[str]) -> dict[str, int]:
    """Count the payments below an agent to each of these payees that were not given back."""
    rows = fetch_briefly(_PAID, {"agent": agent_id, "payees": list(payees)})
    return {payee: payments for payee, payments in rows if payments is not None}
