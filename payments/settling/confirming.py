"""Follow broadcast transactions until the chain has confirmed or refused them.

Any process may repeat this at any time: exactly one process wins each change of state (`settling.transitions`).
Unknown is never failed: a payment ends only on what the chain itself has proven. Source: docs/architecture.md.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from django.db.models import Q, QuerySet

from chains.port import ChainAdapter, Finality, Inclusion, Observation
from foundation.kernel.times import utc_now
from payments.lifecycle import OPEN_STATES, SettlementState
from payments.models import DepositCursor, Settlement
from payments.settling.broadcasting import UNCONFIRMED_STATES
from payments.settling.next_states import (
    end_superseded,
    find_end,
    find_search_cursor,
    follow_inclusion,
    may_be_over,
    may_end_unpaid,
)
from payments.settling.nonce_slots import NonceSlot, read_nonce_slots
from payments.settling.nonces import record_mined_nonces
from payments.settling.renewal import end_or_renew
from payments.settling.state_changes import StateChange
from payments.settling.transaction_rows import (
    BATCH_SIZE,
    TransactionRow,
    is_past_deadline,
    query_of,
    read_rows,
)
from payments.settling.transitions import change_states, settle

_FAILURES = (SettlementState.FAILED, SettlementState.EXPIRED, SettlementState.REPLACED)
# A slot whose end the chain is asked to prove, with its transaction that a node has in a block, if any.
_Candidate = tuple[NonceSlot, tuple[TransactionRow, Inclusion] | None]


@dataclass(frozen=True, slots=True)
class _Run:
    """What one run of `confirm` decides by. `search` is how far the escrow's history was searched; None: not at all."""

    adapter: ChainAdapter
    finality: Finality
    search: DepositCursor | None
    renews: bool

    def may_end_unpaid(self, row: TransactionRow) -> bool:
        return may_end_unpaid(row, self.finality, self.search, self.adapter)


def confirm(chain: str, adapter: ChainAdapter, *, renews: bool = True) -> int:
    """Look for the open transactions of a chain and record what is found; returns how many came to an end.

    Unless it `renews`, a payment whose transaction has expired is given back at once, for the same reason.

    Raises:
        ChainUnavailable: no node answered; nothing is concluded from that.
    """
    if not Settlement.objects.filter(chain=chain, state__in=OPEN_STATES).exists():
        return 0
    finality = adapter.follower.find_finality()
    # The cursor before the rows: a payment that the search found up to there is among the rows.
    run = _Run(adapter, finality, find_search_cursor(chain, adapter), renews)
    candidates = read_rows(_find_candidates(chain, adapter, finality))
    ended = 0
    for start in range(0, len(candidates), BATCH_SIZE):
        slots = read_nonce_slots(chain, candidates[start : start + BATCH_SIZE])
        observation = adapter.follower.find_inclusions([query_of(row) for slot in slots for row in slot.rows], finality)
        record_mined_nonces(chain, observation.mined_nonces)
        ended += _follow(slots, observation, run)
    return ended


def _find_candidates(chain: str, adapter: ChainAdapter, finality: Finality) -> QuerySet[Settlement]:
    """Find the open transactions that something may have happened to.

    These are the unconfirmed ones that may have been sent or are past their deadline, and those in a block that is
    final now, has vanished, or cannot be where a node said.
    """
    included = Settlement.objects.filter(
        chain=chain, state=SettlementState.INCLUDED, block_number__gt=finality.block_number
    )
    seen = included.order_by("block_number").values_list("block_number", "block_hash").distinct()
    blocks = [(number, known) for number, known in seen if number is not None]
    lost = adapter.follower.find_lost(blocks) if blocks else []
    is_unconfirmed = Q(state__in=UNCONFIRMED_STATES) & (
        Q(offered_at__isnull=False) | Q(valid_until__lt=utc_now()) | Q(valid_until_height__lt=finality.height)
    )
    in_final_block = Q(state=SettlementState.INCLUDED, block_number__lte=finality.block_number)
    in_lost_block = Q(state=SettlementState.INCLUDED, block_hash__in=lost)
    # The block does not exist, or should be final by now: the node was wrong.
    in_impossible_block = Q(state=SettlementState.INCLUDED) & (
        Q(block_number__gt=finality.horizon)
        | Q(valid_until__lt=finality.time)
        | Q(valid_until_height__lt=finality.height)
    )
    rows = Settlement.objects.filter(is_unconfirmed | in_final_block | in_lost_block | in_impossible_block, chain=chain)
    return rows.order_by("relayer_id", "nonce", "created_at")


def _follow(slots: Iterable[NonceSlot], observation: Observation, run: _Run) -> int:
    """Record what is not final yet, and conclude what the chain can prove now; returns how many came to an end."""
    changes: list[StateChange] = []
    to_prove: list[_Candidate] = []
    for slot in slots:
        included = slot.find_included(observation)
        if _is_final_outcome(slot, included, run):
            to_prove.append((slot, included))
        elif _is_absence_to_prove(slot, included, observation, run):
            to_prove.append((slot, None))
        else:
            changes += follow_inclusion(slot, included)
    change_states(changes)
    return _prove(to_prove, run) if to_prove else 0


def _is_final_outcome(slot: NonceSlot, included: tuple[TransactionRow, Inclusion] | None, run: _Run) -> bool:
    """Tell whether a final inclusion can end a slot. A failed payment may be signed and sent otherwise until late."""
    if included is None or not included[1].is_final:
        return False
    return included[1].failure is None or run.may_end_unpaid(slot.current)


def _is_absence_to_prove(
    slot: NonceSlot, included: tuple[TransactionRow, Inclusion] | None, observation: Observation, run: _Run
) -> bool:
    """Tell whether the chain can be asked to prove that a transaction will never be included."""
    is_late = is_past_deadline(slot.current, run.finality)
    if is_late and not run.may_end_unpaid(slot.current):
        # Somebody may still pay it otherwise: without nonces, the search has to come past it first.
        return False
    if included is None:
        return may_be_over(slot, observation, run.finality)
    # Past its deadline, a node still has it in a block that is not final: the chain itself says what is true.
    return is_late and not included[1].is_final


def _prove(to_prove: Sequence[_Candidate], run: _Run) -> int:
    """End what the chain proves to be over; returns how many came to an end."""
    queries = [query_of(included[0] if included else slot.current) for slot, included in to_prove]
    fates = run.adapter.prover.find_fates(queries, run.finality)
    ends: list[StateChange] = []
    ended = 0
    for slot, included in to_prove:
        row, inclusion = included or (slot.current, None)
        if inclusion is not None and slot.is_superseded(row):
            ended += len(change_states(end_superseded(slot, row, inclusion)))
        elif (end := find_end(slot, row, inclusion, fates[row.tx], run.finality)) is not None:
            ends.append(end)
    change_states([one for one in ends if one.state == SettlementState.BROADCAST])
    # Settled together. A failure may take its agent's lock, so each is recorded by itself.
    ended += settle([one for one in ends if one.state == SettlementState.FINAL])
    return ended + sum(_fail(one, run) for one in ends if one.state in _FAILURES)


def _fail(failure: StateChange, run: _Run) -> int:
    read = failure.settlement
    if failure.state == SettlementState.FAILED and failure.block_number is not None:
        failure = replace(failure, reason=run.adapter.follower.find_reason(query_of(read), failure.block_number))
    (row,) = read_rows(Settlement.objects.filter(pk=read.tx))
    if row.state != read.state:
        return 0  # another process was faster
    failure = replace(failure, settlement=row)
    if run.adapter.nonces is not None or not row.to_pay:
        # The escrow decides what becomes of the payments: `payments.settling.unpaid`.
        return len(change_states([failure]))
    return end_or_renew(failure, run.adapter, renews=run.renews)
