"""Settlement: what was approved is sent, watched, and ends `settled` or `failed`.

Rows are the queue; tasks only say "look now". Each step may be repeated at any time by any process: sending the same
bytes twice is one transfer, and every change of state is won by exactly one process (`transitions`).
Source: docs/architecture.md, "One settlement's way". Unknown is never failed: whatever ends a payment, the chain
itself has proven.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Min, Q, QuerySet

from allowance.kernel.assets import Asset
from allowance.kernel.repeated_logs import log_once_a_minute
from allowance.kernel.times import utc_now
from chains.port import ChainAdapter, Finality, Inclusion, Observation, Order, Proof, Submitter, TransactionQuery
from payments.lifecycle import OPEN_STATES, SettlementState
from payments.models import DepositCursor, Payment, Relayer, Settlement
from payments.settling.expiry import find_search_cursor, may_end_unpaid
from payments.settling.outcomes import NonceSlot, end_late, follow, is_late, is_overtaken, is_to_pay, judge, may_be_over
from payments.settling.renewal import is_worth_renewing, renew
from payments.settling.transitions import StateChange, change_states, fail, record_sending, settle

log = logging.getLogger(__name__)

BATCH_SIZE = 200
# What no node took, or what a worker was about to send when it died, is offered again after this.
RETRY_AFTER = timedelta(seconds=5)
# Beat rings every second, and an offer is noted a little after its ring: what is due half a second later is due now.
_NEARLY = timedelta(milliseconds=500)

_WAITING = (SettlementState.SIGNED, SettlementState.BROADCAST)
_FAILURES = (SettlementState.FAILED, SettlementState.EXPIRED, SettlementState.REPLACED)


def broadcast(chain: str, adapter: ChainAdapter) -> int:
    """Offer the signed transactions of a chain to its nodes, in nonce order; returns how many were taken.

    One that is refused stays `signed` and is offered again later; it does not hold up the other relayers.

    Raises:
        ChainUnavailable: no node answered; what was not taken is offered again.
    """
    taken = 0
    # What is offered here is not due again here, however slow the nodes are.
    now = utc_now()
    while batch := _due(chain, now, adapter.resend_after):
        # Noted before they are sent: whoever finds the note knows that they may be out.
        record_sending(batch)
        refusals = adapter.send([bytes(row.raw) for row in batch])
        for row, refusal in zip(batch, refusals, strict=True):
            if refusal is not None:
                log_once_a_minute(log, logging.WARNING, "No node takes %s now: %s", row.tx, refusal, about=chain)
        accepted = [row for row, refusal in zip(batch, refusals, strict=True) if refusal is None]
        signed = [row for row in accepted if row.state == SettlementState.SIGNED]
        taken += len(change_states([StateChange(row, SettlementState.BROADCAST) for row in signed]))
    return taken


def confirm(chain: str, adapter: ChainAdapter, *, renews: bool = True) -> int:
    """Look for the open transactions of a chain and follow what is found; returns how many came to an end.

    Without `renews`, what has expired is given back at once, on the same proof.

    Raises:
        ChainUnavailable: no node answered; nothing is concluded from that.
    """
    if not Settlement.objects.filter(chain=chain, state__in=OPEN_STATES).exists():
        return 0
    finality = adapter.find_finality()
    # Before the rows: what was found up to there is among them.
    search = find_search_cursor(chain, adapter)
    doubtful = list(_doubtful(chain, adapter, finality))
    ended = 0
    for start in range(0, len(doubtful), BATCH_SIZE):
        places = _places(chain, doubtful[start : start + BATCH_SIZE])
        sighting = adapter.find_inclusions([query_of(row) for place in places for row in place.rows], finality)
        _note_mined(chain, sighting.mined_nonces)
        ended += _follow(places, sighting, finality, search, adapter, renews=renews)
    return ended


# --- Sending ----------------------------------------------------------------------------------------------------------
def _due(chain: str, now: datetime, resend_after: timedelta) -> list[Settlement]:
    """Find what to offer now, as far as nodes keep so many transactions of one sender waiting.

    What a node took but no block holds is offered again, too: nodes forget.
    """
    waiting = Settlement.objects.filter(chain=chain, state__in=_WAITING)
    heads = dict(waiting.values_list("relayer_id").annotate(head=Min("nonce")))
    if not heads:
        return []
    in_line = Q()
    for relayer_id, head in heads.items():
        end = None if head is None else head + settings.MAX_IN_FLIGHT_PER_RELAYER
        in_line |= Q(relayer_id=relayer_id, nonce=None) if end is None else Q(relayer_id=relayer_id, nonce__lt=end)
    due = (
        Q(offered_at=None)
        | Q(state=SettlementState.SIGNED, offered_at__lt=now + _NEARLY - RETRY_AFTER)
        | Q(state=SettlementState.BROADCAST, offered_at__lt=now + _NEARLY - resend_after)
    )
    return list(waiting.filter(in_line, due).order_by("relayer_id", "nonce", "created_at")[:BATCH_SIZE])


# --- Following --------------------------------------------------------------------------------------------------------
def _doubtful(chain: str, adapter: ChainAdapter, finality: Finality) -> QuerySet[Settlement]:
    """Find the open transactions that something may have happened to.

    All that may have been sent or whose time is over; of those in a block, whose block is final now or gone.
    """
    included = Settlement.objects.filter(
        chain=chain, state=SettlementState.INCLUDED, block_number__gt=finality.block_number
    )
    seen = included.order_by("block_number").values_list("block_number", "block_hash").distinct()
    blocks = [(number, known) for number, known in seen if number is not None]
    lost = adapter.find_lost(blocks) if blocks else []
    waiting = Q(state__in=_WAITING) & (
        Q(offered_at__isnull=False) | Q(valid_until__lt=utc_now()) | Q(valid_until_height__lt=finality.height)
    )
    in_final_block = Q(state=SettlementState.INCLUDED, block_number__lte=finality.block_number)
    in_lost_block = Q(state=SettlementState.INCLUDED, block_hash__in=lost)
    # In a block that there is not, or that should be final by now: a node was wrong.
    in_strange_block = Q(state=SettlementState.INCLUDED) & (
        Q(block_number__gt=finality.horizon)
        | Q(valid_until__lt=finality.time)
        | Q(valid_until_height__lt=finality.height)
    )
    rows = Settlement.objects.filter(waiting | in_final_block | in_lost_block | in_strange_block, chain=chain)
    return rows.order_by("relayer_id", "nonce", "created_at").select_related("relayer", "payment")


def _places(chain: str, batch: Sequence[Settlement]) -> list[NonceSlot]:
    nonces: dict[int, list[int]] = {}
    for row in batch:
        if row.nonce is not None:
            nonces.setdefault(row.relayer_id, []).append(row.nonce)
    at_place = Q(nonce=None, payment_id__in=[row.payment_id for row in batch if row.nonce is None])
    for relayer_id, its_nonces in nonces.items():
        at_place |= Q(relayer_id=relayer_id, nonce__in=its_nonces)
    replaced = Settlement.objects.filter(
        at_place, chain=chain, state__in=(SettlementState.REPLACED, SettlementState.EXPIRED)
    ).select_related("relayer", "payment")
    others: dict[tuple[Any, ...], list[Settlement]] = {}
    for row in replaced:
        others.setdefault(_place_of(row), []).append(row)
    return [NonceSlot(row, others.get(_place_of(row), [])) for row in batch]


def _place_of(row: Settlement) -> tuple[Any, ...]:
    return (row.payment_id,) if row.nonce is None else (row.relayer_id, row.nonce)


def _follow(
    places: Iterable[NonceSlot],
    sighting: Observation,
    finality: Finality,
    search: DepositCursor | None,
    adapter: ChainAdapter,
    *,
    renews: bool,
) -> int:
    moves: list[StateChange] = []
    decisive: list[tuple[NonceSlot, tuple[Settlement, Inclusion] | None]] = []
    for place in places:
        landed = place.find_landed(sighting)
        # Somebody may still pay it otherwise: on chains without nonces the search has to come past it first.
        is_open = is_late(place.current, finality) and not may_end_unpaid(place.current, finality, search, adapter)
        if landed is not None and landed[1].is_final and _says_enough(place, landed[1], finality, search, adapter):
            decisive.append((place, landed))
        elif landed is None and not is_open and may_be_over(place, sighting, finality):
            decisive.append((place, None))
        elif landed is not None and not landed[1].is_final and not is_open and is_late(place.current, finality):
            # Past its deadline a node still has it in a block that is not final: the chain itself says what is true.
            decisive.append((place, None))
        else:
            moves += follow(place, landed)
    change_states(moves)
    if not decisive:
        return 0
    sought = [query_of(landed[0] if landed else place.current) for place, landed in decisive]
    proofs = adapter.find_proofs(sought, finality)
    return _conclude(decisive, proofs, finality, adapter, renews=renews)


def _says_enough(
    place: NonceSlot, inclusion: Inclusion, finality: Finality, search: DepositCursor | None, adapter: ChainAdapter
) -> bool:
    """Tell whether a final inclusion ends a transaction: what failed may be signed and sent otherwise until late."""
    return inclusion.failure is None or may_end_unpaid(place.current, finality, search, adapter)


def _conclude(
    decisive: Iterable[tuple[NonceSlot, tuple[Settlement, Inclusion] | None]],
    proofs: Mapping[str, Proof],
    finality: Finality,
    adapter: ChainAdapter,
    *,
    renews: bool,
) -> int:
    verdicts: list[StateChange] = []
    ended = 0
    for place, landed in decisive:
        row, inclusion = landed or (place.current, None)
        if inclusion is not None and is_overtaken(row):
            ended += len(change_states(end_late(place, row, inclusion)))
        elif (verdict := judge(place, row, inclusion, proofs[row.tx], finality)) is not None:
            verdicts.append(verdict)
    change_states([verdict for verdict in verdicts if verdict.state == SettlementState.BROADCAST])
    # What is settled is settled together; a failure may take its agent's lock, and comes by itself.
    ended += settle([verdict for verdict in verdicts if verdict.state == SettlementState.FINAL])
    failures = [verdict for verdict in verdicts if verdict.state in _FAILURES]
    return ended + sum(_fail(failure, adapter, renews=renews) for failure in failures)


def _fail(failure: StateChange, adapter: ChainAdapter, *, renews: bool) -> int:
    row = failure.settlement
    if failure.state == SettlementState.FAILED and failure.block_number is not None:
        failure = replace(failure, reason=adapter.find_reason(query_of(row), failure.block_number))
    if row.payment is None or adapter.nonces is not None or not is_to_pay(row):
        # What becomes of the payment, its escrow decides: `payments.settling.unpaid`.
        return len(change_states([failure]))
    if failure.state == SettlementState.EXPIRED and renews and is_worth_renewing(row.payment):
        return renew(failure, query_of(row), adapter)
    return fail(row.payment, reason=failure.reason, ended=failure)


def _note_mined(chain: str, mined_nonces: Mapping[str, int]) -> None:
    for address, nonce in mined_nonces.items():
        # One node's word: that the chain is ahead of us is for the watcher to see.
        relayers = Relayer.objects.filter(chain=chain, address=address, next_nonce__gte=nonce)
        relayers.exclude(mined_nonce=nonce).update(mined_nonce=nonce)


def query_of(row: Settlement) -> TransactionQuery:
    """Say of a transaction, with its relayer and payment, what a chain needs to look for it."""
    submitter = Submitter(row.relayer.number, row.relayer.address, row.nonce)
    order = order_of(row.payment) if row.payment is not None and is_to_pay(row) else None
    return TransactionQuery(
        row.chain_tx,
        bytes(row.raw),
        submitter,
        order,
        row.block_number,
        row.block_hash,
        row.valid_until_height,
        row.valid_from_block,
        row.most_cost,
    )


def order_of(payment: Payment) -> Order:
    """Say of a payment what its chain needs to know to pay it."""
    return Order(payment.escrow_id, Asset(payment.asset), payment.amount, payment.recipient)
