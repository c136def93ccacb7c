"""Decide the next state of a transaction from what nodes report and what the chain itself proves.

What nodes report moves a transaction on its way. A payment ends only on what the chain itself has proven. Unknown is
never failed. Source: docs/architecture.md.
"""

import logging
from collections.abc import Iterator

from chains.port import Finality, Inclusion, NonceProof, Observation, PaymentProof, Proof
from foundation.kernel.repeated_logs import log_once_a_minute
from payments.lifecycle import PaymentStatus, SettlementState
from payments.settling.nonce_slots import NonceSlot
from payments.settling.transaction_rows import AnyTransaction
from payments.settling.transitions import StateChange

log = logging.getLogger(__name__)

EXPIRED_REASON = "Not included before its deadline."


def follow_inclusion(slot: NonceSlot, included: tuple[AnyTransaction, Inclusion] | None) -> Iterator[StateChange]:
    """Yield the changes that an inclusion which is not final yet, or its loss, brings with it."""
    current = slot.current
    if included is None:
        if current.state == SettlementState.INCLUDED:
            reason = "Its block is no longer on the chain."
            yield StateChange(current, SettlementState.BROADCAST, reason, needs_resending=True)
        return
    row, inclusion = included
    is_known = (row.state, row.block_hash) == (SettlementState.INCLUDED, inclusion.block_hash)
    if not is_known and not is_given_back(row):
        yield _included_as(slot, row, SettlementState.INCLUDED, inclusion)


def may_be_over(slot: NonceSlot, observation: Observation, finality: Finality) -> bool:
    """Tell whether a transaction without a receipt might never have one: its nonce is used, or its deadline is past."""
    row = slot.current
    # A node has no receipt from a final block where there was one: it is behind, or the other node was wrong.
    is_missing = row.state == SettlementState.INCLUDED and (row.block_number or 0) <= finality.block_number
    is_used = row.nonce is not None and row.nonce < observation.mined_nonces.get(row.relayer.address, 0)
    return is_past_deadline(row, finality) or is_missing or is_used


def decide_outcome(
    slot: NonceSlot, row: AnyTransaction, inclusion: Inclusion | None, proof: Proof, finality: Finality
) -> StateChange | None:
    """Decide, by the chain's own proof, what becomes of a transaction; None: unknown yet."""
    if inclusion is not None and inclusion.failure is None and _has_succeeded(row, proof):
        return _included_as(slot, row, SettlementState.FINAL, inclusion)
    if (failure := _find_failure(slot, row, inclusion, proof, finality)) is not None:
        return failure
    if inclusion is None and row.state == SettlementState.INCLUDED and proof.nonce is NonceProof.UNUSED:
        reason = "It is not in the block in which a node saw it."
        return StateChange(row, SettlementState.BROADCAST, reason, needs_resending=True)
    if is_to_pay(row) and proof.payment is not PaymentProof.UNPAID:
        # Paid by another transaction, void, or unknown: the escrow's events say which (reconciling.outflows).
        log_once_a_minute(
            log,
            logging.WARNING,
            "Payment %s is neither settled nor unpaid by %s: its escrow's history will tell",
            row.payment_id,
            row.tx,
            about=row.chain,
            extra={"paymentId": row.payment_id},
        )
    return None


def _has_succeeded(row: AnyTransaction, proof: Proof) -> bool:
    """Tell whether the chain confirms that a transaction which a node has in a final block did what it was made for.

    A nonce that is not used in a final block contradicts that node.
    """
    if not is_to_pay(row):
        return proof.nonce is NonceProof.USED
    return proof.payment is PaymentProof.PAID and proof.nonce is not NonceProof.UNUSED


def _find_failure(
    slot: NonceSlot, row: AnyTransaction, inclusion: Inclusion | None, proof: Proof, finality: Finality
) -> StateChange | None:
    """Return the failure that is proven; None: the transaction may still succeed, or nothing is proven.

    On a chain with nonces a failed transaction says nothing of its payment yet, which others may still submit: see
    `settling.unpaid`.
    """
    if proof.payment is not PaymentProof.UNPAID:
        return None
    if not is_to_pay(row):
        return _end_cleanup(slot, row, inclusion, proof, finality)
    # Past its deadline the chain refuses it: that is proof of failure, not absence of news.
    is_over = is_past_deadline(row, finality)
    if inclusion is not None and inclusion.failure is None:
        return None  # a node has it as done and the chain does not: nothing is concluded
    if inclusion is not None:
        # That it reverted is one node's word; that its nonce is used up is not.
        is_over = is_over or proof.nonce is NonceProof.USED
        return _included_as(slot, row, SettlementState.FAILED, inclusion) if is_over else None
    if proof.nonce is NonceProof.USED:
        reason = "It failed on the chain." if row.nonce is None else "Its nonce was used by another transaction."
        return StateChange(row, SettlementState.FAILED, reason)
    return StateChange(row, SettlementState.EXPIRED, EXPIRED_REASON) if is_over else None


def _end_cleanup(
    slot: NonceSlot, row: AnyTransaction, inclusion: Inclusion | None, proof: Proof, finality: Finality
) -> StateChange | None:
    """End a filler or a void once its nonce is used, by whichever transaction; later where old state is not kept."""
    is_old = finality.time > row.changed_at
    if proof.nonce is NonceProof.USED or (proof.nonce is NonceProof.MINED and is_old):
        if row.is_void and inclusion is not None and inclusion.failure is not None:
            # The escrow refused it, and would refuse the next one: its payment waits for its deadline.
            return _included_as(slot, row, SettlementState.FAILED, inclusion)
        return StateChange(row, SettlementState.REPLACED, "Its nonce is used.")
    # It was made to pay what was given back before it was in a block: its nonce is free to be filled now.
    return StateChange(row, SettlementState.EXPIRED, EXPIRED_REASON) if is_past_deadline(row, finality) else None


def is_past_deadline(row: AnyTransaction, finality: Finality) -> bool:
    """Tell whether the chain's final block is past the deadline of a transaction."""
    is_past = row.valid_until is not None and finality.time > row.valid_until
    return is_past or (row.valid_until_height is not None and finality.height > row.valid_until_height)


def is_to_pay(row: AnyTransaction) -> bool:
    """Tell whether a transaction is still to pay: it was made for that, and its payment was not given back."""
    return row.pays and row.payment is not None and row.payment.status != PaymentStatus.FAILED


def is_superseded(row: AnyTransaction) -> bool:
    """Tell whether its payment goes on without it, or is over: then its inclusion changes nothing more.

    On a chain without nonces, the search of the escrow's history notices such an inclusion.
    """
    if not row.pays or row.payment is None or row.nonce is None:
        return is_given_back(row)
    return row.payment.status != PaymentStatus.APPROVED or row.state == SettlementState.EXPIRED


def is_given_back(row: AnyTransaction) -> bool:
    """Tell whether it was made for a payment that has failed already."""
    return row.pays and not is_to_pay(row)


def end_superseded(slot: NonceSlot, row: AnyTransaction, inclusion: Inclusion) -> list[StateChange]:
    """End the open transaction of a slot whose nonce was used by one that its payment went on without."""
    if inclusion.failure is None and is_given_back(row):
        message = "Payment %s was given back, and %s paid it all the same"
        log.critical(message, row.payment_id, row.tx, extra={"paymentId": row.payment_id})
    elif row.state == SettlementState.REPLACED:
        return [_included_as(slot, row, SettlementState.FAILED, inclusion)]
    return [StateChange(slot.current, SettlementState.REPLACED, f"{row.tx} was included in its place.")]


def _included_as(slot: NonceSlot, row: AnyTransaction, state: SettlementState, inclusion: Inclusion) -> StateChange:
    return StateChange(
        row,
        state,
        reason=(inclusion.failure or "") if inclusion.is_final else "",
        block_number=inclusion.block_number,
        block_hash=inclusion.block_hash,
        displaces=slot.displaced_by(row),
    )
