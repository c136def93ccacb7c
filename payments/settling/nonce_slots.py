"""Group the transactions of which at most one can ever be included."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from chains.port import Inclusion, Observation
from foundation.database import fetch_rows
from payments.lifecycle import SettlementState
from payments.models import Settlement
from payments.settling.transaction_rows import TransactionRow, is_given_back, read_rows

# Hardly any slot has others.
_FIND_OTHERS = """
    SELECT other.tx FROM unnest(%(relayers)s::bigint[], %(nonces)s::bigint[]) AS slot (relayer_id, nonce)
      JOIN payments_settlement AS other USING (relayer_id, nonce)
     WHERE other.chain = %(chain)s AND other.state = ANY(%(states)s::text[])
 UNION
    SELECT tx FROM payments_leg AS leg JOIN payments_settlement AS other USING (tx)
     WHERE leg.payment_id = ANY(%(payments)s::text[]) AND other.nonce IS NULL AND other.chain = %(chain)s
       AND other.state = ANY(%(states)s::text[])
"""


@dataclass(frozen=True, slots=True)
class NonceSlot:
    """One nonce of a relayer: its open transaction, and those that were replaced by it or expired. At most one counts.

    On a chain without nonces, an open transaction, and those of its payments that can never be included any more.
    """

    current: TransactionRow
    others: Sequence[TransactionRow]

    @property
    def rows(self) -> Sequence[TransactionRow]:
        return (self.current, *self.others)

    def find_included(self, observation: Observation) -> tuple[TransactionRow, Inclusion] | None:
        """Find which transaction is in a block; a final inclusion goes before one that may still be undone."""
        found = [(row, observation.inclusions[row.tx]) for row in self.rows if row.tx in observation.inclusions]
        if self.current.nonce is None:
            # These share no nonce: that another one failed says nothing of the open one.
            found = [(row, seen) for row, seen in found if row is self.current or _has_paid(seen)]
        return max(found, key=lambda pair: pair[1].is_final, default=None)

    def is_superseded(self, row: TransactionRow) -> bool:
        """Tell whether a transaction's payments go on without it, or are over: then its inclusion changes nothing more.

        On a chain without nonces, the search of the escrow's history notices such an inclusion.
        """
        if not row.pays or row.nonce is None:
            return is_given_back(row)
        # What was replaced by one that pays, and whose nonce is filled since, has expired with that one.
        has_expired = row.state == SettlementState.EXPIRED or (
            row.state == SettlementState.REPLACED and not self.current.pays
        )
        return has_expired or not row.is_wanted

    def displaced_by(self, included: TransactionRow) -> TransactionRow | None:
        """Return the open transaction if it ends because another one was included; None if it is the included one."""
        return None if included.tx == self.current.tx else self.current


def read_nonce_slots(chain: str, batch: Sequence[TransactionRow]) -> list[NonceSlot]:
    """Read the slot of each of these open transactions."""
    with_nonce = [row for row in batch if row.nonce is not None]
    found = fetch_rows(
        _FIND_OTHERS,
        {
            "chain": chain,
            "states": [SettlementState.REPLACED, SettlementState.EXPIRED],
            "relayers": [row.relayer_id for row in with_nonce],
            "nonces": [row.nonce for row in with_nonce],
            "payments": [leg.payment_id for row in batch if row.nonce is None for leg in row.legs],
        },
    )
    others: dict[tuple[Any, ...], list[TransactionRow]] = {}
    for row in read_rows(Settlement.objects.filter(pk__in=[tx for (tx,) in found])) if found else ():
        for key in _slot_keys(row):
            others.setdefault(key, []).append(row)
    return [NonceSlot(row, _unique(other for key in _slot_keys(row) for other in others.get(key, ()))) for row in batch]


def _slot_keys(row: TransactionRow) -> list[tuple[Any, ...]]:
    return [(leg.payment_id,) for leg in row.legs] if row.nonce is None else [(row.relayer_id, row.nonce)]


def _unique(rows: Iterable[TransactionRow]) -> list[TransactionRow]:
    return list({row.tx: row for row in rows}.values())


def _has_paid(inclusion: Inclusion) -> bool:
    return inclusion.is_final and inclusion.failure is None
