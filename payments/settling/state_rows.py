"""Lock, change and record the states of many transactions at once: one statement for each kind of move."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

from foundation.database import fetch_rows

# Whatever locks several transactions locks them in the order of their ids: otherwise two processes could wait for each
# other.
_LOCK = "SELECT tx, state FROM payments_settlement WHERE tx = ANY(%(txs)s::text[]) ORDER BY tx FOR UPDATE"
# The database shows the beginning of a statement that waits: it names the table there.
_WRITE = """
    -- payments_transition
    WITH wanted AS (
        SELECT * FROM unnest(
            %(txs)s::text[], %(olds)s::text[], %(news)s::text[], %(reasons)s::text[],
            %(block_numbers)s::bigint[], %(block_hashes)s::text[], %(resendings)s::boolean[]
        ) AS one (tx, old, new, reason, block_number, block_hash, needs_resending)
    ),
    locked AS (SELECT tx FROM payments_settlement WHERE tx = ANY(%(txs)s::text[]) ORDER BY tx FOR UPDATE),
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
# A change: transaction, old state, new state, reason, block number, block hash, whether its bytes are sent again.
WrittenChange: TypeAlias = tuple[str, str, str, str, int | None, str, bool]
_COLUMNS = ("txs", "olds", "news", "reasons", "block_numbers", "block_hashes", "resendings")


def lock_states(txs: Sequence[str]) -> dict[str, str]:
    """Lock transactions until the database transaction ends; returns their states by id."""
    return dict(fetch_rows(_LOCK, {"txs": list(txs)}))


def write_states(changes: Sequence[WrittenChange], now: datetime) -> set[str]:
    """Change the states of transactions that are still as they were read, and write a transition for each.

    Returns the ids of those that were.
    """
    if not changes:
        return set()
    columns = {name: list(values) for name, values in zip(_COLUMNS, zip(*changes, strict=True), strict=True)}
    return {tx for (tx,) in fetch_rows(_WRITE, {**columns, "now": now})}


def settle_approved(payments: Sequence[str], now: datetime) -> list[str]:
    """Settle those of the payments that are still approved; returns their ids."""
    return sorted(payment_id for (payment_id,) in fetch_rows(_SETTLE, {"payments": list(payments), "now": now}))
