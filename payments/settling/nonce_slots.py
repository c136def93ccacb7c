"""Group the transactions of which at most one can ever be included."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from chains.port import Inclusion, Observation
from payments.lifecycle import SettlementState
from payments.models import Settlement


@dataclass(frozen=True, slots=True)
class NonceSlot:
    """One nonce of a relayer: its open transaction, and those that were replaced by it or expired. At most one counts.

    On a chain without nonces, one payment: its open transaction, and those that can never be included any more.
    """

    current: Settlement
    others: Sequence[Settlement]

    @property
    def rows(self) -> Sequence[Settlement]:
        return (self.current, *self.others)

    def find_included(self, observation: Observation) -> tuple[Settlement, Inclusion] | None:
        """Find which transaction is in a block; a final inclusion goes before one that may still be undone."""
        found = [(row, observation.inclusions[row.tx]) for row in self.rows if row.tx in observation.inclusions]
        if self.current.nonce is None:
            # These share no nonce: that another one failed says nothing of the open one.
            found = [(row, seen) for row, seen in found if row is self.current or _has_paid(seen)]
        return max(found, key=lambda pair: pair[1].is_final, default=None)

    def displaced_by(self, included: Settlement) -> Settlement | None:
        """Return the open transaction if it ends because another one was included; None if it is the included one."""
        return None if included.pk == self.current.pk else self.current


def read_nonce_slots(chain: str, batch: Sequence[Settlement]) -> list[NonceSlot]:
    """Read the slot of each of these open transactions."""
    nonces: dict[int, list[int]] = {}
    for row in batch:
        if row.nonce is not None:
            nonces.setdefault(row.relayer_id, []).append(row.nonce)
    in_slots = Q(nonce=None, payment_id__in=[row.payment_id for row in batch if row.nonce is None])
    for relayer_id, relayer_nonces in nonces.items():
        in_slots |= Q(relayer_id=relayer_id, nonce__in=relayer_nonces)
    replaced = Settlement.objects.filter(
        in_slots, chain=chain, state__in=(SettlementState.REPLACED, SettlementState.EXPIRED)
    ).select_related("relayer", "payment")
    others: dict[tuple[Any, ...], list[Settlement]] = {}
    for row in replaced:
        others.setdefault(_slot_key(row), []).append(row)
    return [NonceSlot(row, others.get(_slot_key(row), [])) for row in batch]


def _slot_key(row: Settlement) -> tuple[Any, ...]:
    return (row.payment_id,) if row.nonce is None else (row.relayer_id, row.nonce)


def _has_paid(inclusion: Inclusion) -> bool:
    return inclusion.is_final and inclusion.failure is None
