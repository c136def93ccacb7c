"""Group the transactions of which at most one can ever be included."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chains.port import Inclusion, Observation
from foundation.database import fetch_rows
from payments.lifecycle import SettlementState
from payments.models import Settlement
from payments.settling.transaction_rows import AnyTransaction, read_rows

# Hardly any slot has others.
_FIND_OTHERS = """
    SELECT other.tx FROM unnest(%(relayers)s::bigint[], %(nonces)s::bigint[]) AS slot (relayer_id, nonce)
      JOIN payments_settlement AS other USING (relayer_id, nonce)
     WHERE other.chain = %(chain)s AND other.state = ANY(%(states)s::text[])
 UNION
    SELECT tx FROM payments_settlement
     WHERE payment_id = ANY(%(payments)s::text[]) AND nonce IS NULL AND chain = %(chain)s
       AND state = ANY(%(states)s::text[])
"""


@dataclass(frozen=True, slots=True)
class NonceSlot:
    """One nonce of a relayer: its open transaction, and those that were replaced by it or expired. At most one counts.

    On a chain without nonces, one payment: its open transaction, and those that can never be included any more.
    """

    current: AnyTransaction
    others: Sequence[AnyTransaction]

    @property
    def rows(self) -> Sequence[AnyTransaction]:
        return (self.current, *self.others)

    def find_included(self, observation: Observation) -> tuple[AnyTransaction, Inclusion] | None:
        """Find which transaction is in a block; a final inclusion goes before one that may still be undone."""
        found = [(row, observation.inclusions[row.tx]) for row in self.rows if row.tx in observation.inclusions]
        if self.current.nonce is None:
            # These share no nonce: that another one failed says nothing of the open one.
            found = [(row, seen) for row, seen in found if row is self.current or _has_paid(seen)]
        return max(found, key=lambda pair: pair[1].is_final, default=None)

    def displaced_by(self, included: AnyTransaction) -> AnyTransaction | None:
        """Return the open transaction if it ends because another one was included; None if it is the included one."""
        return None if included.pk == self.current.pk else self.current


def read_nonce_slots(chain: str, batch: Sequence[AnyTransaction]) -> list[NonceSlot]:
    """Read the slot of each of these open transactions."""
    with_nonce = [row for row in batch if row.nonce is not None]
    found = fetch_rows(
        _FIND_OTHERS,
        {
            "chain": chain,
            "states": [SettlementState.REPLACED, SettlementState.EXPIRED],
            "relayers": [row.relayer_id for row in with_nonce],
            "nonces": [row.nonce for row in with_nonce],
            "payments": [row.payment_id for row in batch if row.nonce is None],
        },
    )
    others: dict[tuple[Any, ...], list[AnyTransaction]] = {}
    if found:
        for row in read_rows(Settlement.objects.filter(pk__in=[tx for (tx,) in found])):
            others.setdefault(_slot_key(row), []).append(row)
    return [NonceSlot(row, others.get(_slot_key(row), [])) for row in batch]


def _slot_key(row: AnyTransaction) -> tuple[Any, ...]:
    return (row.payment_id,) if row.nonce is None else (row.relayer_id, row.nonce)


def _has_paid(inclusion: Inclusion) -> bool:
    return inclusion.is_final and inclusion.failure is None
