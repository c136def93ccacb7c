"""Decide what becomes of a transaction, from what nodes show of it and what the chain itself says.

What nodes show moves a transaction on its way; what ends a payment, the chain itself has proven. Unknown is never
failed. Source: docs/architecture.md, "One settlement's way".
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from allowance.kernel.repeated_logs import log_once_a_minute
from chains.port import Finality, Inclusion, Observation, Proof
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Settlement
from payments.settling.transitions import StateChange

log = logging.getLogger(__name__)

_EXPIRED = "Not included before its deadline."


@dataclass(frozen=True, slots=True)
class NonceSlot:
    """One nonce of a relayer: its open transaction, and those that others took the place of. At most one can land.

    On a chain without nonces, one payment: its open transaction, and those that can never land any more.
    """

    current: Settlement
    others: Sequence[Settlement]

    @property
    def rows(self) -> Sequence[Settlement]:
        return (self.current, *self.others)

    def find_landed(self, sighting: Observation) -> tuple[Settlement, Inclusion] | None:
        """Find which of them is in a block; a final one goes before one that only seems to be in one."""
        found = [(row, sighting.inclusions[row.tx]) for row in self.rows if row.tx in sighting.inclusions]
        if self.current.nonce is None:
            # They share no nonce: that another one failed says nothing of the open one.
            found = [(row, seen) for row, seen in found if row is self.current or _has_paid(seen)]
        return max(found, key=lambda pair: pair[1].is_final, default=None)

    def displaced_by(self, landed: Settlement) -> Settlement | None:
        """Tell what ends because another one of the place landed: the open one; None if it landed itself."""
        return None if landed.pk == self.current.pk else self.current


def follow(place: NonceSlot, landed: tuple[Settlement, Inclusion] | None) -> Iterator[StateChange]:
    """Follow what is not final yet."""
    current = place.current
    if landed is None:
        if current.state == SettlementState.INCLUDED:
            reason = "Its block is no longer on the chain."
            yield StateChange(current, SettlementState.BROADCAST, reason, needs_resending=True)
        return
    row, inclusion = landed
    is_known = (row.state, row.block_hash) == (SettlementState.INCLUDED, inclusion.block_hash)
    if not is_known and not is_given_back(row):
        yield _seen_in(place, row, SettlementState.INCLUDED, inclusion)


def may_be_over(place: NonceSlot, sighting: Observation, finality: Finality) -> bool:
    """Tell whether a transaction without a receipt might never have one: its nonce is used, or its time is over."""
    row = place.current
    # A node has no receipt from a final block where one was: it is behind, or the other was wrong.
    is_missing = row.state == SettlementState.INCLUDED and (row.block_number or 0) <= finality.block_number
    is_used = row.nonce is not None and row.nonce < sighting.mined_nonces.get(row.relayer.address, 0)
    return is_late(row, finality) or is_missing or is_used


def judge(
    place: NonceSlot, row: Settlement, inclusion: Inclusion | None, proof: Proof, finality: Finality
) -> StateChange | None:
    """Decide by what the chain itself says of a transaction what becomes of it; None: that cannot be told yet."""
    if inclusion is not None and inclusion.failure is None and _has_done_its_work(row, proof):
        return _seen_in(place, row, SettlementState.FINAL, inclusion)
    if (failure := _failure(place, row, inclusion, proof, finality)) is not None:
        return failure
    if inclusion is None and row.state == SettlementState.INCLUDED and proof.is_nonce_used is False:
        reason = "It is not in the block in which a node saw it."
        return StateChange(row, SettlementState.BROADCAST, reason, needs_resending=True)
    if is_to_pay(row) and proof.is_paid is not False:
        # Paid by another transaction, void, or not to be told: its events say which (reconciling.outflows).
        log_once_a_minute(
            log,
            logging.WARNING,
            "Payment %s is neither settled nor unpaid by %s: its escrow's history will tell",
            row.payment_id,
            row.tx,
            about=row.chain,
        )
    return None


def _has_done_its_work(row: Settlement, proof: Proof) -> bool:
    """Tell by the chain's own word whether what a node has in a final block did what it was made for.

    A nonce that is not used in a final block contradicts that node.
    """
    if not is_to_pay(row):
        return proof.is_nonce_used is True
    return proof.is_paid is True and proof.is_nonce_used is not False


def _failure(
    place: NonceSlot, row: Settlement, inclusion: Inclusion | None, proof: Proof, finality: Finality
) -> StateChange | None:
    """Find what proves that a transaction never does its work; None: nothing does.

    On a chain with nonces that says nothing of its payment yet, which others may still submit: see `settling.unpaid`.
    """
    if proof.is_paid is not False:
        return None
    # From then on the chain refuses it by its deadline: proof of failure, not absence of news.
    is_over = is_late(row, finality)
    if not is_to_pay(row):
        return _filled(place, row, inclusion, proof, finality)
    if inclusion is not None and inclusion.failure is None:
        return None  # a node has it as done, the chain does not: nothing is concluded
    if inclusion is not None:
        # That it reverted is one node's word; that its nonce is used up is not.
        is_over = is_over or proof.is_nonce_used is True
        return _seen_in(place, row, SettlementState.FAILED, inclusion) if is_over else None
    if proof.is_nonce_used:
        reason = "It failed on the chain." if row.nonce is None else "Its nonce was used by another transaction."
        return StateChange(row, SettlementState.FAILED, reason)
    return StateChange(row, SettlementState.EXPIRED, _EXPIRED) if is_over else None


def is_late(row: Settlement, finality: Finality) -> bool:
    """Tell whether the chain's final block is past the deadline of a transaction."""
    is_past = row.valid_until is not None and finality.time > row.valid_until
    return is_past or (row.valid_until_height is not None and finality.height > row.valid_until_height)


def _has_paid(inclusion: Inclusion) -> bool:
    return inclusion.is_final and inclusion.failure is None


def _filled(
    place: NonceSlot, row: Settlement, inclusion: Inclusion | None, proof: Proof, finality: Finality
) -> StateChange | None:
    """End what only fills or voids once its nonce is used, whoever did; later where old state is not kept."""
    is_old = finality.time > row.changed_at
    if proof.is_nonce_used or (proof.is_nonce_used is None and proof.is_nonce_mined and is_old):
        if row.is_void and inclusion is not None and inclusion.failure is not None:
            # The escrow refused it, and would refuse the next one: its payment waits for its deadline.
            return _seen_in(place, row, SettlementState.FAILED, inclusion)
        return StateChange(row, SettlementState.REPLACED, "Its nonce is used.")
    # Made to pay what was given back before it was in a block: its nonce is free to be filled now.
    return StateChange(row, SettlementState.EXPIRED, _EXPIRED) if is_late(row, finality) else None


def is_to_pay(row: Settlement) -> bool:
    """Tell whether a transaction is still to pay: it was made for that, and its payment was not given back."""
    return row.pays and row.payment is not None and row.payment.status != PaymentStatus.FAILED


def is_overtaken(row: Settlement) -> bool:
    """Tell whether its payment goes on without it, or is over: then whatever lands at its place changes nothing more.

    On a chain without nonces that is for the search of the escrow's history to notice.
    """
    if not row.pays or row.payment is None or row.nonce is None:
        return is_given_back(row)
    return row.payment.status != PaymentStatus.APPROVED or row.state == SettlementState.EXPIRED


def is_given_back(row: Settlement) -> bool:
    """Tell whether it was made to pay what has failed already."""
    return row.pays and not is_to_pay(row)


def end_late(place: NonceSlot, row: Settlement, inclusion: Inclusion) -> list[StateChange]:
    """End what is at the place of a transaction that used up its nonce when its payment went on without it."""
    if inclusion.failure is None and is_given_back(row):
        log.critical("Payment %s was given back, and %s paid it all the same", row.payment_id, row.tx)
    elif row.state == SettlementState.REPLACED:
        return [_seen_in(place, row, SettlementState.FAILED, inclusion)]
    return [StateChange(place.current, SettlementState.REPLACED, f"{row.tx} was included in its place.")]


def _seen_in(place: NonceSlot, row: Settlement, state: SettlementState, inclusion: Inclusion) -> StateChange:
    return StateChange(
        row,
        state,
        reason=(inclusion.failure or "") if inclusion.is_final else "",
        block_number=inclusion.block_number,
        block_hash=inclusion.block_hash,
        displaces=place.displaced_by(row),
    )
