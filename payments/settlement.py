"""Settlement: what was approved is sent, watched, and ends `settled` or `failed`.

Rows are the queue; tasks only say "look now". Each step may be repeated at any time by any process: sending the same
bytes twice is one transfer, and every change of state is won by exactly one process (`transitions`).
Source: design.md, "Settlement". Unknown is never failed: whatever ends a payment, the chain itself has proven.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Min, Q, QuerySet

from allowance.kernel.assets import Asset
from allowance.kernel.times import utc_now
from payments.chains.base import ChainAdapter, Finality, Inclusion, Order, Proof, Sighting, Sought, Turn
from payments.lifecycle import OPEN_STATES, PaymentStatus, SettlementState
from payments.models import Payment, Relayer, Settlement
from payments.transitions import Move, fail, move, note_offer, settle

log = logging.getLogger(__name__)

BATCH_SIZE = 200
# What no node took, or what a worker was about to send when it died, is offered again after this.
RETRY_AFTER = timedelta(seconds=5)
# What a node took but no block holds is offered again after this: nodes forget.
RESEND_AFTER = timedelta(seconds=30)

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
    while batch := _due(chain, now):
        # Noted before they are sent: whoever finds the note knows that they may be out.
        note_offer(batch)
        refusals = adapter.send([bytes(row.raw) for row in batch])
        for row, refusal in zip(batch, refusals, strict=True):
            if refusal is not None:
                log.warning("No node takes %s now: %s", row.tx, refusal)
        accepted = [row for row, refusal in zip(batch, refusals, strict=True) if refusal is None]
        signed = [row for row in accepted if row.state == SettlementState.SIGNED]
        taken += len(move([Move(row, SettlementState.BROADCAST) for row in signed]))
    return taken


def confirm(chain: str, adapter: ChainAdapter) -> int:
    """Look for the open transactions of a chain and follow what is found; returns how many came to an end.

    Raises:
        ChainUnavailable: no node answered; nothing is concluded from that.
    """
    if not Settlement.objects.filter(chain=chain, state__in=OPEN_STATES).exists():
        return 0
    finality = adapter.find_finality()
    doubtful = list(_doubtful(chain, adapter, finality))
    ended = 0
    for start in range(0, len(doubtful), BATCH_SIZE):
        places = _places(chain, doubtful[start : start + BATCH_SIZE])
        sighting = adapter.find_inclusions([sought_of(row) for place in places for row in place.rows], finality)
        _note_mined(chain, sighting.mined_nonces)
        ended += _follow(places, sighting, finality, adapter)
    return ended


@dataclass(frozen=True, slots=True)
class Place:
    """One nonce of a relayer: its open transaction, and those that others took the place of. At most one can land."""

    current: Settlement
    others: Sequence[Settlement]

    @property
    def rows(self) -> Sequence[Settlement]:
        return (self.current, *self.others)

    def find_landed(self, sighting: Sighting) -> tuple[Settlement, Inclusion] | None:
        """Find which of them is in a block; a final one goes before one that only seems to be in one."""
        found = [(row, sighting.inclusions[row.tx]) for row in self.rows if row.tx in sighting.inclusions]
        return max(found, key=lambda pair: pair[1].is_final, default=None)

    def displaced_by(self, landed: Settlement) -> Settlement | None:
        """Tell what ends because another one of the place landed: the open one; None if it landed itself."""
        return None if landed.pk == self.current.pk else self.current


# --- Sending ----------------------------------------------------------------------------------------------------------
def _due(chain: str, now: datetime) -> list[Settlement]:
    """Find what to offer now, as far as nodes keep so many transactions of one sender waiting."""
    waiting = Settlement.objects.filter(chain=chain, state__in=_WAITING)
    heads = dict(waiting.values_list("relayer_id").annotate(head=Min("nonce")))
    if not heads:
        return []
    in_line = Q()
    for relayer_id, head in heads.items():
        in_line |= Q(relayer_id=relayer_id, nonce__lt=head + settings.MAX_IN_FLIGHT_PER_RELAYER)
    due = (
        Q(offered_at=None)
        | Q(state=SettlementState.SIGNED, offered_at__lt=now - RETRY_AFTER)
        | Q(state=SettlementState.BROADCAST, offered_at__lt=now - RESEND_AFTER)
    )
    return list(waiting.filter(in_line, due).order_by("relayer_id", "nonce")[:BATCH_SIZE])


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
    waiting = Q(state__in=_WAITING) & (Q(offered_at__isnull=False) | Q(valid_until__lt=utc_now()))
    in_final_block = Q(state=SettlementState.INCLUDED, block_number__lte=finality.block_number)
    in_lost_block = Q(state=SettlementState.INCLUDED, block_hash__in=lost)
    # In a block that there is not, or that should be final by now: a node was wrong.
    in_strange_block = Q(state=SettlementState.INCLUDED) & (
        Q(block_number__gt=finality.horizon) | Q(valid_until__lt=finality.time)
    )
    rows = Settlement.objects.filter(waiting | in_final_block | in_lost_block | in_strange_block, chain=chain)
    return rows.order_by("relayer_id", "nonce").select_related("relayer", "payment")


def _places(chain: str, batch: Sequence[Settlement]) -> list[Place]:
    nonces: dict[int, list[int]] = {}
    for row in batch:
        nonces.setdefault(row.relayer_id, []).append(row.nonce)
    at_place = Q()
    for relayer_id, its_nonces in nonces.items():
        at_place |= Q(relayer_id=relayer_id, nonce__in=its_nonces)
    replaced = Settlement.objects.filter(
        at_place, chain=chain, state__in=(SettlementState.REPLACED, SettlementState.EXPIRED)
    ).select_related("relayer", "payment")
    others: dict[tuple[int, int], list[Settlement]] = {}
    for row in replaced:
        others.setdefault((row.relayer_id, row.nonce), []).append(row)
    return [Place(row, others.get((row.relayer_id, row.nonce), [])) for row in batch]


def _follow(places: Iterable[Place], sighting: Sighting, finality: Finality, adapter: ChainAdapter) -> int:
    moves: list[Move] = []
    decisive: list[tuple[Place, tuple[Settlement, Inclusion] | None]] = []
    for place in places:
        landed = place.find_landed(sighting)
        if (landed is not None and landed[1].is_final) or (landed is None and _may_be_over(place, sighting, finality)):
            decisive.append((place, landed))
        else:
            moves += _seen(place, landed)
    move(moves)
    if not decisive:
        return 0
    sought = [sought_of(landed[0] if landed else place.current) for place, landed in decisive]
    proofs = adapter.find_proofs(sought, finality)
    return _conclude(decisive, proofs, finality, adapter)


def _seen(place: Place, landed: tuple[Settlement, Inclusion] | None) -> Iterator[Move]:
    """Follow what is not final yet."""
    current = place.current
    if landed is None:
        if current.state == SettlementState.INCLUDED:
            reason = "Its block is no longer on the chain."
            yield Move(current, SettlementState.BROADCAST, reason, is_to_be_offered=True)
        return
    row, inclusion = landed
    is_known = (row.state, row.block_hash) == (SettlementState.INCLUDED, inclusion.block_hash)
    if not is_known and not _is_given_back(row):
        yield _seen_in(place, row, SettlementState.INCLUDED, inclusion)


def _may_be_over(place: Place, sighting: Sighting, finality: Finality) -> bool:
    """Tell whether a transaction without a receipt might never have one: its nonce is used, or its time is over."""
    row = place.current
    is_late = row.valid_until is not None and finality.time > row.valid_until
    # A node has no receipt from a final block where one was: it is behind, or the other was wrong.
    is_missing = row.state == SettlementState.INCLUDED and (row.block_number or 0) <= finality.block_number
    return is_late or is_missing or row.nonce < sighting.mined_nonces.get(row.relayer.address, 0)


def _conclude(
    decisive: Iterable[tuple[Place, tuple[Settlement, Inclusion] | None]],
    proofs: Mapping[str, Proof],
    finality: Finality,
    adapter: ChainAdapter,
) -> int:
    verdicts: list[Move] = []
    ended = 0
    for place, landed in decisive:
        row, inclusion = landed or (place.current, None)
        if inclusion is not None and _is_given_back(row):
            ended += len(move(_late_end(place, row, inclusion)))
        elif (verdict := _judge(place, row, inclusion, proofs[row.tx], finality)) is not None:
            verdicts.append(verdict)
    move([verdict for verdict in verdicts if verdict.state == SettlementState.BROADCAST])
    # What is settled is settled together; a failure takes its agent's lock, and comes by itself.
    ended += settle([verdict for verdict in verdicts if verdict.state == SettlementState.FINAL])
    return ended + sum(_fail(verdict, adapter) for verdict in verdicts if verdict.state in _FAILURES)


def _judge(place: Place, row: Settlement, inclusion: Inclusion | None, proof: Proof, finality: Finality) -> Move | None:
    """Decide by what the chain itself says of a transaction what becomes of it; None: that cannot be told yet."""
    is_done = _has_done_its_work(row, proof)
    if is_done and inclusion is not None:
        return _seen_in(place, row, SettlementState.FINAL, inclusion)
    if is_done and proof.is_nonce_used and row.payment_id is not None and not place.others:
        # No node has its receipt. That it is paid the escrow says, and nothing else can have paid it.
        return Move(row, SettlementState.FINAL, "By the escrow's word.")
    if (failure := _failure(place, row, inclusion, proof, finality)) is not None:
        return failure
    if inclusion is None and row.state == SettlementState.INCLUDED and proof.is_nonce_used is False:
        reason = "It is not in the block in which a node saw it."
        return Move(row, SettlementState.BROADCAST, reason, is_to_be_offered=True)
    if row.payment_id is not None and proof.is_paid is not False:
        # The escrow counts the payment as made, or cannot be asked: giving it back could pay it twice.
        log.warning("Payment %s is neither settled nor proven failed, look at %s", row.payment_id, row.tx)
    return None


def _has_done_its_work(row: Settlement, proof: Proof) -> bool:
    """Tell by the chain's own word whether what a node has in a final block did what it was made for.

    A nonce that is not used in a final block contradicts that node.
    """
    if row.payment_id is None:
        return proof.is_nonce_used is True
    return proof.is_paid is True and proof.is_nonce_used is not False


def _failure(
    place: Place, row: Settlement, inclusion: Inclusion | None, proof: Proof, finality: Finality
) -> Move | None:
    """Find what proves that a transaction never does its work; None: nothing does."""
    if proof.is_paid is not False:
        return None
    # From then on the escrow refuses it by its deadline: proof of failure, not absence of news.
    is_late = row.valid_until is not None and finality.time > row.valid_until
    if row.payment_id is None:
        return _filled(row, proof, finality)
    if inclusion is not None:
        # That it reverted is one node's word; that it cannot be paid any more is not.
        is_over = proof.is_nonce_used or is_late
        return _seen_in(place, row, SettlementState.FAILED, inclusion) if is_over else None
    if proof.is_nonce_used:
        return Move(row, SettlementState.FAILED, "Its nonce was used by another transaction.")
    return Move(row, SettlementState.EXPIRED, "Not included before its deadline.") if is_late else None


def _filled(row: Settlement, proof: Proof, finality: Finality) -> Move | None:
    """End what only fills a nonce once that is used, whoever used it; where old state is not kept, some time later."""
    is_old = finality.time > row.changed_at
    is_used = proof.is_nonce_used or (proof.is_nonce_used is None and proof.is_nonce_mined and is_old)
    return Move(row, SettlementState.REPLACED, "Its nonce is used.") if is_used else None


def _fail(failure: Move, adapter: ChainAdapter) -> int:
    row = failure.settlement
    if row.payment_id is None:
        return len(move([failure]))
    if failure.state == SettlementState.FAILED and failure.block_number is not None:
        failure = replace(failure, reason=adapter.find_reason(sought_of(row), failure.block_number))
    return fail(failure)


def _is_given_back(row: Settlement) -> bool:
    return row.payment is not None and row.payment.status == PaymentStatus.FAILED


def _late_end(place: Place, row: Settlement, inclusion: Inclusion) -> list[Move]:
    """End what is at the place of a transaction that used up its nonce after its payment was given back."""
    if inclusion.failure is None:
        log.critical("Payment %s was given back, and %s paid it all the same", row.payment_id, row.tx)
    elif row.state == SettlementState.REPLACED:
        return [_seen_in(place, row, SettlementState.FAILED, inclusion)]
    return [Move(place.current, SettlementState.REPLACED, f"{row.tx} landed in its place.")]


def _seen_in(place: Place, row: Settlement, state: SettlementState, inclusion: Inclusion) -> Move:
    return Move(
        row,
        state,
        reason=(inclusion.failure or "") if inclusion.is_final else "",
        block_number=inclusion.block_number,
        block_hash=inclusion.block_hash,
        displaces=place.displaced_by(row),
    )


def _note_mined(chain: str, mined_nonces: Mapping[str, int]) -> None:
    for address, nonce in mined_nonces.items():
        # One node's word: that the chain is ahead of us is for the watcher to see.
        relayers = Relayer.objects.filter(chain=chain, address=address, next_nonce__gte=nonce)
        relayers.exclude(mined_nonce=nonce).update(mined_nonce=nonce)


def sought_of(row: Settlement) -> Sought:
    """Say of a transaction, with its relayer and payment, what a chain needs to look for it."""
    turn = Turn(row.relayer.number, row.relayer.address, row.nonce)
    order = None if row.payment is None else _order(row.payment)
    return Sought(row.tx, bytes(row.raw), turn, order, row.block_number, row.block_hash)


def _order(payment: Payment) -> Order:
    return Order(payment.pk, Asset(payment.asset), payment.amount, payment.recipient)
