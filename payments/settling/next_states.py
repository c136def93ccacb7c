"""Decide the next state of a transaction from what nodes report and what the chain itself proves.

What nodes report moves a transaction on its way. A payment ends only on what the chain itself has proven. Unknown is
never failed. Source: docs/architecture.md.

On a chain whose escrow does not count payments itself, that one transaction is absent proves little, because a payment
can have others with different ids: a relayer's key can sign the same message in many ways, and a restored database does
not know what was signed after its backup. So no payment ends unpaid there before the escrow's own history was searched
past the last block that could contain any of them (`payments.reconciling.outflows` records what is found there).
"""

import logging
from collections.abc import Iterator

from chains.port import ChainAdapter, Fate, Finality, Inclusion, NonceFate, Observation, PaymentFate
from foundation.kernel.repeated_logs import log_once_a_minute
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import DepositCursor
from payments.settling.nonce_slots import NonceSlot
from payments.settling.state_changes import StateChange
from payments.settling.transaction_rows import TransactionRow, is_given_back, is_past_deadline

log = logging.getLogger(__name__)

EXPIRED_REASON = "Not included before its deadline."
# The last height at which a transaction can be included is one node's word. It may be too low by the number of blocks
# that are not final yet.
HEIGHT_MARGIN = 64
# The search may be this many blocks behind the newest block that can be searched.
_MAX_BLOCKS_BEHIND = 100


def follow_inclusion(slot: NonceSlot, included: tuple[TransactionRow, Inclusion] | None) -> Iterator[StateChange]:
    """Yield the changes that an inclusion which is not final yet, or its loss, brings with it."""
    current = slot.current
    if included is None:
        if current.state == SettlementState.INCLUDED:
            reason = "Its block is no longer on the chain."
            yield StateChange(current, SettlementState.BROADCAST, reason, needs_resending=True)
        return
    row, inclusion = included
    is_known = (row.state, row.block_hash) == (SettlementState.INCLUDED, inclusion.block_hash)
    # One whose payments were signed again may still revert, and only a final block says otherwise.
    if not is_known and not slot.is_superseded(row):
        yield _included_as(slot, row, SettlementState.INCLUDED, inclusion)


def may_be_over(slot: NonceSlot, observation: Observation, finality: Finality) -> bool:
    """Tell whether a transaction without a receipt might never have one: its nonce is used, or its deadline is past."""
    row = slot.current
    # A node has no receipt from a final block where there was one: it is behind, or the other node was wrong.
    is_missing = row.state == SettlementState.INCLUDED and (row.block_number or 0) <= finality.block_number
    is_used = row.nonce is not None and row.nonce < observation.mined_nonces.get(row.relayer.address, 0)
    return is_past_deadline(row, finality) or is_missing or is_used


def find_end(
    slot: NonceSlot, row: TransactionRow, inclusion: Inclusion | None, fate: Fate, finality: Finality
) -> StateChange | None:
    """Find, by what the chain proves, what becomes of a transaction; None: unknown yet.

    It is no end if the transaction is not where a node saw it: then it is sent again.
    """
    if inclusion is not None and inclusion.failure is None and _has_succeeded(row, inclusion, fate):
        return _included_as(slot, row, SettlementState.FINAL, inclusion)
    if (failure := _find_failure(slot, row, inclusion, fate, finality)) is not None:
        return failure
    if inclusion is None and row.state == SettlementState.INCLUDED and fate.nonce is NonceFate.UNUSED:
        reason = "It is not in the block in which a node saw it."
        return StateChange(row, SettlementState.BROADCAST, reason, needs_resending=True)
    for leg in row.to_pay:
        if fate.payments[leg.escrow_id] is not PaymentFate.UNPAID:
            # Paid by another transaction, void, or unknown: the escrow's events say which (reconciling.outflows).
            log_once_a_minute(
                log,
                logging.WARNING,
                "Payment %s is neither settled nor unpaid by %s: its escrow's history will tell",
                leg.payment_id,
                row.tx,
                about=row.chain,
                extra={"paymentId": leg.payment_id},
            )
    return None


def _has_succeeded(row: TransactionRow, inclusion: Inclusion, fate: Fate) -> bool:
    """Tell whether the chain confirms that a transaction which a node has in a final block did what it was made for.

    A nonce that is not used in a final block contradicts that node. Of several payments, those that the transaction has
    skipped say nothing of it: each is proven by itself before anything is done about it. So, if it has skipped all, it
    is enough that its nonce is used in some block: not all nodes keep the state of a final one.
    """
    paid = [leg for leg in row.to_pay if leg.escrow_id not in inclusion.skipped]
    if not paid:
        return fate.nonce is NonceFate.USED or (bool(row.to_pay) and fate.nonce is NonceFate.MINED)
    return fate.nonce is not NonceFate.UNUSED and all(fate.payments[leg.escrow_id] is PaymentFate.PAID for leg in paid)


def _find_failure(
    slot: NonceSlot, row: TransactionRow, inclusion: Inclusion | None, fate: Fate, finality: Finality
) -> StateChange | None:
    """Return the failure that is proven; None: the transaction may still succeed, or nothing is proven.

    On a chain with nonces a failed transaction says nothing of its payment yet, which others may still submit: see
    `settling.unpaid`.
    """
    if not row.to_pay:
        return _end_cleanup(slot, row, inclusion, fate, finality)
    waiting = [leg for leg in row.to_pay if leg.status == PaymentStatus.APPROVED]
    if any(fate.payments[leg.escrow_id] is not PaymentFate.UNPAID for leg in waiting or row.to_pay):
        return None
    # Past its deadline the chain refuses it: that proves failure, it is no absence of news.
    is_over = is_past_deadline(row, finality)
    if inclusion is not None and inclusion.failure is None:
        return None  # a node has it as done and the chain does not: nothing is concluded
    if inclusion is not None:
        # That it reverted is one node's word; that its nonce is used up is not.
        is_over = is_over or fate.nonce is NonceFate.USED
        return _included_as(slot, row, SettlementState.FAILED, inclusion) if is_over else None
    if fate.nonce is NonceFate.USED:
        reason = "It failed on the chain." if row.nonce is None else "Its nonce was used by another transaction."
        return StateChange(row, SettlementState.FAILED, reason)
    return StateChange(row, SettlementState.EXPIRED, EXPIRED_REASON) if is_over else None


def _end_cleanup(
    slot: NonceSlot, row: TransactionRow, inclusion: Inclusion | None, fate: Fate, finality: Finality
) -> StateChange | None:
    """End a filler or a void once its nonce is used, by whichever transaction; later where old state is not kept."""
    is_old = finality.time > row.changed_at
    if fate.nonce is NonceFate.USED or (fate.nonce is NonceFate.MINED and is_old):
        if row.is_void and inclusion is not None and inclusion.failure is not None:
            # The escrow refused it, and would refuse the next one: its payment waits for its deadline.
            return _included_as(slot, row, SettlementState.FAILED, inclusion)
        return StateChange(row, SettlementState.REPLACED, "Its nonce is used.")
    # It was made to pay what was given back before it was in a block: its nonce is free to be filled now.
    return StateChange(row, SettlementState.EXPIRED, EXPIRED_REASON) if is_past_deadline(row, finality) else None


def end_superseded(slot: NonceSlot, row: TransactionRow, inclusion: Inclusion) -> list[StateChange]:
    """End the open transaction of a slot whose nonce was used by one that its payment went on without."""
    if inclusion.failure is None and is_given_back(row):
        for leg in row.legs:
            message = "Payment %s was given back, and %s paid it all the same"
            log.critical(message, leg.payment_id, row.tx, extra={"paymentId": leg.payment_id})
    elif row.state == SettlementState.REPLACED and not row.is_wanted:
        return [_included_as(slot, row, SettlementState.FAILED, inclusion)]
    return [StateChange(slot.current, SettlementState.REPLACED, f"{row.tx} was included in its place.")]


def find_search_cursor(chain: str, adapter: ChainAdapter) -> DepositCursor | None:
    """Find how far the escrow's history was searched; None: it was not."""
    return DepositCursor.objects.filter(chain=chain, escrow=adapter.escrow.address).first()


def may_end_unpaid(
    row: TransactionRow, finality: Finality, search: DepositCursor | None, adapter: ChainAdapter
) -> bool:
    """Tell whether a payment may end unpaid with its transaction: no other one is, or can be, in a block.

    Where the escrow itself counts payments, that does not depend on transactions.
    """
    if adapter.nonces is not None or row.valid_until_height is None:
        return True
    # A node that denies part of the history may be the one that does not hide a payment.
    searched = None if search is None else search.undisputed_block
    if not is_past_deadline(row, finality) or search is None or searched is None:
        return False
    if not adapter.preparer.spends_from_escrow(bytes(row.raw)):
        # Signed for the escrow of earlier keys: the history of this one says nothing of it (`rotate_keys`).
        return False
    last_height = max(row.valid_until_height + HEIGHT_MARGIN, search.strays_until_height or 0)
    newest = finality.block_number - adapter.escrow.deposits_trail - _MAX_BLOCKS_BEHIND
    return searched >= max(last_height + finality.skipped, newest)


def _included_as(slot: NonceSlot, row: TransactionRow, state: SettlementState, inclusion: Inclusion) -> StateChange:
    return StateChange(
        row,
        state,
        reason=(inclusion.failure or "") if inclusion.is_final else "",
        block_number=inclusion.block_number,
        block_hash=inclusion.block_hash,
        displaces=slot.displaced_by(row),
        skipped=inclusion.skipped if inclusion.is_final else {},
    )
