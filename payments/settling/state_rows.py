"""Lock, change and record the states of many transactions at once: one statement for each kind of move."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime

from foundation.database import fetch_rows, write_rows

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
_LEAVE_OUT = """
    UPDATE payments_leg AS leg SET skipped = left_out.why, is_live = false
      FROM unnest(%(txs)s::text[], %(payments)s::text[], %(whys)s::text[]) AS left_out (tx, payment_id, why)
     WHERE leg.tx = left_out.tx AND leg.payment_id = left_out.payment_id
"""
_TAKE_IN = """
    UPDATE payments_leg AS leg SET skipped = NULL, is_live = payments_is_live(settlement.state)
      FROM payments_settlement AS settlement
     WHERE settlement.tx = %(tx)s AND leg.tx = settlement.tx AND leg.payment_id = ANY(%(payments)s::text[])
"""
_LEAVE_OUT_ELSEWHERE = """
    UPDATE payments_leg AS other SET skipped = left(own.tx || ' was included in its place.', 500), is_live = false
      FROM payments_leg AS own
     WHERE own.tx = ANY(%(txs)s::text[]) AND own.skipped IS NULL AND other.is_live AND other.tx <> own.tx
       AND other.payment_id = own.payment_id AND other.is_void = own.is_void
"""
# What is final stays as it is: it is the revived transaction that goes on without what another one has paid.
_LEAVE_OUT_PAID = """
    UPDATE payments_leg AS own SET skipped = left(other.tx || ' has paid it.', 500), is_live = false
      FROM payments_leg AS other JOIN payments_settlement AS paying USING (tx)
     WHERE own.tx = ANY(%(txs)s::text[]) AND own.skipped IS NULL AND other.is_live AND other.tx <> own.tx
       AND other.payment_id = own.payment_id AND other.is_void = own.is_void AND paying.state = 'final'
"""
_SETTLE = """
    WITH approved AS (
        SELECT id FROM payments_payment
         WHERE id = ANY(%(payments)s::text[]) AND status = 'approved' ORDER BY id FOR UPDATE
    )
    UPDATE payments_payment AS payment SET status = 'settled', settled_at = %(now)s
      FROM approved WHERE payment.id = approved.id AND payment.status = 'approved'
 RETURNING payment.id, coalesce(payment.approved_at, payment.created_at)
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


def leave_out_legs(legs: Sequence[tuple[str, str, str]]) -> None:
    """Let transactions go on without payments: of each the transaction, the payment, and why. The former are locked."""
    if legs:
        txs, payments, whys = map(list, zip(*legs, strict=True))
        write_rows(_LEAVE_OUT, {"txs": txs, "payments": payments, "whys": whys})


def take_in_legs(tx: str, payments: Iterable[str]) -> None:
    """Let a transaction go on with these payments of it, as it turns out. No other one may have them any more."""
    write_rows(_TAKE_IN, {"tx": tx, "payments": list(payments)})


def leave_out_elsewhere(txs: Sequence[str]) -> None:
    """Let all other transactions go on without the payments of these, and these without what is paid already."""
    if txs:
        write_rows(_LEAVE_OUT_PAID, {"txs": list(txs)})
        write_rows(_LEAVE_OUT_ELSEWHERE, {"txs": list(txs)})


def settle_approved(payments: Sequence[str], now: datetime) -> dict[str, datetime]:
    """Settle those of the payments that are still approved; returns when each was decided, in the order of their ids.

    What a person approved was decided later than it was asked for (`Payment.decided_at`).
    """
    return dict(sorted(fetch_rows(_SETTLE, {"payments": list(payments), "now": now})))
