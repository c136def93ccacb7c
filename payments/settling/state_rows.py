"""Lock, change and record the states of many transactions at once: one statement for each kind of move."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime

from foundation.database import fetch_rows

# Whatever locks several transactions locks them in the order of their ids: otherwise two processes could wait for each
# other.
_LOCK = "SELECT tx, state FROM payments_settlement WHERE tx = ANY(%(txs)s::text[]) ORDER BY tx FOR UPDATE"
# The database shows the beginning of a statement that waits: it names the table there.
_WRITE = """
    -- payments_transition
    WITH wanted AS (
        SELECT * FROM unnest(
            %(tx)s::text[], %(old)s::text[], %(new)s::text[], %(reason)s::text[],
            %(block_number)s::bigint[], %(block_hash)s::text[], %(needs_resending)s::boolean[]
        ) AS one (tx, old, new, reason, block_number, block_hash, needs_resending)
    ),
    locked AS (SELECT tx FROM payments_settlement WHERE tx = ANY(%(tx)s::text[]) ORDER BY tx FOR UPDATE),
    changed AS (
        UPDATE payments_settlement AS settlement
           SET state = wanted.new, reason = wanted.reason, changed_at = %(now)s, block_number = wanted.block_number,
               block_hash = wanted.block_hash,
               offered_at = CASE WHEN wanted.needs_resending THEN NULL ELSE settlement.offered_at END
          FROM wanted JOIN locked USING (tx) WHERE settlement.tx = wanted.tx AND settlement.state = wanted.old
     RETURNING wanted.*
    )
    INSERT INTO payments_transition (settlement_id, old, new, reason, created_at)
    SELECT tx, old, new, reason, %(now)s FROM changed
 RETURNING settlement_id
"""
_SETTLE = """
    WITH approved AS (
        SELECT id FROM payments_payment
         WHERE id = ANY(%(payments)s::text[]) AND status = 'approved' ORDER BY id FOR UPDATE
    )
    UPDATE payments_payment AS payment SET status = 'settled', settled_at = %(now)s
      FROM approved WHERE payment.id = approved.id AND payment.status = 'approved'
 RETURNING payment.id
"""


@dataclass(frozen=True, slots=True)
class StateWrite:
    """A change of a transaction's state as it is written: each field is a column of the statement.

    The block is the one in which it was seen, if any. `needs_resending`: its bytes are sent to the nodes again at once.
    """

    tx: str
    old: str
    new: str
    reason: str = ""
    block_number: int | None = None
    block_hash: str = ""
    needs_resending: bool = False


def lock_states(txs: Sequence[str]) -> dict[str, str]:
    """Lock transactions until the database transaction ends; returns their states by id."""
    return dict(fetch_rows(_LOCK, {"txs": list(txs)}))


def write_states(changes: Sequence[StateWrite], now: datetime) -> set[str]:
    """Change the states of transactions that are still as they were read, and write a transition for each.

    Returns the ids of those that were.
    """
    if not changes:
        return set()
    columns = {one.name: [getattr(change, one.name) for change in changes] for one in fields(StateWrite)}
    return {tx for (tx,) in fetch_rows(_WRITE, {**columns, "now": now})}


def settle_approved(payments: Sequence[str], now: datetime) -> list[str]:
    """Settle those of the payments that are still approved; returns their ids."""
    return sorted(payment_id for (payment_id,) in fetch_rows(_SETTLE, {"payments": list(payments), "now": now}))
