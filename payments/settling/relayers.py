"""The relayer pool: who may submit on a chain, and that no nonce of theirs keeps the later ones waiting.

A nonce is never skipped. One whose transaction does not get into a block is offered with a higher fee; one that was
left without a transaction is filled with one that moves nothing. On a chain without nonces none of this is needed.
Source: docs/architecture.md, "One settlement's way"; docs/background.md, "Settlement on EVM".
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Max, Min, Q

from allowance.kernel.errors import OperationRefused
from allowance.kernel.repeated_logs import log_once_a_minute
from allowance.kernel.times import utc_now
from chains.port import ChainAdapter, ChainUnavailable, NonceAdapter, NonceState, RelayerState, Submitter
from payments.deciding.signed_settlements import create_settlement
from payments.lifecycle import OPEN_STATES, SettlementState
from payments.models import Relayer, Settlement
from payments.settling.relayer_balances import find_under_way, record_relayer_state, reserved_transactions
from payments.settling.transitions import StateChange, change_states

log = logging.getLogger(__name__)

# Further ahead than this the chain is not believed: a relayer that jumps there could never come back.
LONGEST_DRIFT = 10_000
# A transaction that expires before long is not worth a higher fee.
_WORTH_RAISING = timedelta(minutes=2)


def refresh_relayers(chain: str, adapter: ChainAdapter, state: Mapping[str, Any]) -> None:
    """Register, watch and heal the relayers of a chain; `state` is what was just observed of it.

    Raises:
        ChainUnavailable: no node answered.
    """
    relayers = list(Relayer.objects.filter(chain=chain))
    known = {relayer.address for relayer in relayers}
    wanted = {number: adapter.relayer_address(number) for number in _numbers(adapter)}
    new = {number: address for number, address in wanted.items() if address not in known}
    # Before nodes are asked: what ends meanwhile may not be in what they say yet.
    under_way = find_under_way(chain) if adapter.nonces is None else {}
    sightings = adapter.observe_relayers([*(relayer.address for relayer in relayers), *new.values()])
    for number, address in new.items():
        _register(chain, number, address, sightings[address])
    for relayer in Relayer.objects.filter(chain=chain, address__in=sightings):
        sighting = sightings[relayer.address]
        is_ours = _is_ours(relayer, adapter)
        record_relayer_state(relayer, sighting, under_way, is_ours=is_ours)
        if sighting.nonces is not None:
            _catch_up(relayer, sighting.nonces)
        if is_ours:
            if adapter.nonces is not None and sighting.nonces is not None:
                _fill_gaps(relayer, sighting.nonces, adapter.nonces, state)
        else:
            _let_go(relayer)


def raise_stuck_fees(chain: str, adapter: ChainAdapter, state: Mapping[str, Any]) -> int:
    """Put transactions that wait too long at the head of a line in with a higher fee; returns how many.

    The old one is kept: whichever of the two lands counts, and only one can.
    """
    nonces = adapter.nonces
    if nonces is None:
        return 0
    waiting = Settlement.objects.filter(chain=chain, state__in=(SettlementState.SIGNED, SettlementState.BROADCAST))
    heads = dict(waiting.values_list("relayer_id").annotate(head=Min("nonce")))
    at_head = Q(pk=None)
    for relayer_id, nonce in heads.items():
        at_head |= Q(relayer_id=relayer_id, nonce=nonce)
    now = utc_now()
    # What its relayer cannot pay for is taken by no node; a higher fee would not help.
    stuck = waiting.exclude(state=SettlementState.SIGNED, relayer__is_funded=False).filter(
        at_head,
        Q(valid_until=None) | Q(valid_until__gt=now + _WORTH_RAISING),
        offered_at__isnull=False,
        changed_at__lt=now - timedelta(seconds=settings.STUCK_AFTER_S),
    )
    rows = [row for row in stuck.select_related("relayer", "payment") if _is_ours(row.relayer, adapter)]
    return sum(_replace(row, nonces, state) for row in rows)


def switch_relayer(chain: str, address: str, *, is_enabled: bool) -> Relayer:
    """Put a relayer in or out of rotation; the payments that it has are followed to their end all the same.

    Raises:
        OperationRefused: the chain has no such relayer.
    """
    relayer = Relayer.objects.filter(chain=chain, address__iexact=address).first()
    if relayer is None:
        raise OperationRefused(f"{chain} has no relayer {address}.")
    Relayer.objects.filter(pk=relayer.pk).update(is_enabled=is_enabled)
    relayer.is_enabled = is_enabled
    return relayer


def assign_nonce(chain: str) -> tuple[Relayer, Submitter]:
    """Give out the next nonce of a relayer that is switched on, one with a short line, as a payment does.

    It may have less gas money than payments need, which leave some for this. In a transaction.

    Raises:
        ChainUnavailable: none is free.
    """
    line = F("next_nonce") - F("mined_nonce")
    can_pay = Q(funded_until=None, is_funded=True) | Q(next_nonce__lt=F("funded_until") + reserved_transactions())
    free = Relayer.objects.filter(can_pay, chain=chain, is_enabled=True, next_nonce__gte=F("mined_nonce"))
    relayer = free.select_for_update(skip_locked=True, no_key=True).order_by(line, "number").first()
    if relayer is None or relayer.next_nonce is None:
        raise ChainUnavailable("No relayer is free.")
    nonce = relayer.next_nonce
    Relayer.objects.filter(pk=relayer.pk).update(next_nonce=nonce + 1)
    return relayer, Submitter(relayer.number, relayer.address, nonce)


def _numbers(adapter: ChainAdapter) -> range:
    wanted: int = settings.RELAYERS_PER_CHAIN
    return range(wanted if adapter.most_relayers is None else min(wanted, adapter.most_relayers))


def _is_ours(relayer: Relayer, adapter: ChainAdapter) -> bool:
    """Tell whether we have its key: it may have been registered with another seed."""
    return relayer.address == adapter.relayer_address(relayer.number)


def _register(chain: str, number: int, address: str, sighting: RelayerState) -> None:
    """Let a new relayer begin where the chain says that its account is."""
    seen = sighting.nonces
    if seen is not None and seen.mined - seen.final > LONGEST_DRIFT:
        log_once_a_minute(
            log,
            logging.ERROR,
            "%s %s: its account is said to be at nonce %s, not believed",
            chain,
            address,
            seen.mined,
            about=address,
        )
        return
    defaults = {"number": number, "next_nonce": None if seen is None else seen.mined}
    Relayer.objects.get_or_create(chain=chain, address=address, defaults=defaults)


def _catch_up(relayer: Relayer, seen: NonceState) -> None:
    """Go on from where the chain is, if the account was used behind our back or our memory was set back."""
    newest = relayer.settlement_set.aggregate(newest=Max("nonce"))["newest"]
    if newest is not None and Relayer.objects.filter(pk=relayer.pk, next_nonce__lte=newest).update(
        next_nonce=newest + 1
    ):
        log.error("Relayer %s: its next nonce was set back, and is %s again", relayer, newest + 1)
    drift = seen.final - (relayer.next_nonce or 0)
    if drift > LONGEST_DRIFT:
        log_once_a_minute(
            log,
            logging.ERROR,
            "Relayer %s: the chain is said to be %s nonces ahead, which is not believed",
            relayer,
            drift,
            about=relayer.pk,
        )
    elif drift > 0:
        relayers = Relayer.objects.filter(pk=relayer.pk, next_nonce__lt=seen.final)
        if relayers.update(next_nonce=seen.final):
            log.error("Relayer %s: the chain is %s nonces ahead; its key is used elsewhere", relayer, drift)


def _fill_gaps(relayer: Relayer, seen: NonceState, nonces: NonceAdapter, state: Mapping[str, Any]) -> None:
    first = max(seen.mined, seen.final)
    if not _gaps(relayer.pk, first):
        return
    with transaction.atomic():
        # Locked as a payment locks it: what is missing now is not about to be written.
        relayer = Relayer.objects.select_for_update(no_key=True).get(pk=relayer.pk)
        for nonce in _gaps(relayer.pk, first):
            signed = nonces.prepare_filler(Submitter(relayer.number, relayer.address, nonce), state)
            if Settlement.objects.filter(pk=signed.tx).exists():
                continue  # it was filled with the very same; the fee will change
            create_settlement(signed, relayer, nonce=nonce)
            log.warning("Relayer %s: nonce %s was left open and is filled by %s", relayer, nonce, signed.tx)


def _let_go(relayer: Relayer) -> None:
    """Stop following what only tidies up the line of a relayer of another seed.

    What pays has a deadline, which ends it. What fills a nonce or voids a payment has none: behind a nonce that nobody
    can fill any more it would wait for ever. Another relayer voids what is still to be voided; should both land, the
    escrow takes the first one.
    """
    rows = Settlement.objects.filter(
        Q(payment=None) | Q(is_void=True),
        relayer=relayer,
        state__in=(SettlementState.SIGNED, SettlementState.BROADCAST),
    )
    change_states([StateChange(row, SettlementState.REPLACED, "The key of its relayer is gone.") for row in rows])


def _gaps(relayer_id: int, first: int) -> list[int]:
    """Find the nonces that were given out, that no block has used, and that no transaction waits to use."""
    end = Relayer.objects.values_list("next_nonce", flat=True).get(pk=relayer_id)
    window = range(first, min(end or 0, first + settings.MAX_IN_FLIGHT_PER_RELAYER))
    rows = Settlement.objects.filter(relayer_id=relayer_id, nonce__gte=first, nonce__lt=window.stop)
    # In no block: what came to any other end left its nonce open.
    taken = rows.filter(state__in=(*OPEN_STATES, SettlementState.FINAL))
    return sorted(set(window) - set(taken.values_list("nonce", flat=True)))


def _replace(row: Settlement, nonces: NonceAdapter, state: Mapping[str, Any]) -> int:
    submitter = Submitter(row.relayer.number, row.relayer.address, row.nonce)
    # From the newest one, which has the highest fee, even if an earlier one came back by a reorganisation.
    newest = row.relayer.settlement_set.filter(nonce=row.nonce, payment_id=row.payment_id)[0]
    signed = nonces.raise_fee(bytes(newest.raw), submitter, state)
    if signed is None:
        log_once_a_minute(
            log, logging.ERROR, "%s is stuck, and its fee is the highest that is allowed", row.tx, about=row.chain
        )
        return 0
    with transaction.atomic():
        if not change_states(
            [StateChange(row, SettlementState.REPLACED, reason=f"Stuck: {signed.tx} has a higher fee.")]
        ):
            return 0
        # Same contents, so the deadline is the one that it had.
        signed = replace(signed, valid_until=row.valid_until)
        create_settlement(signed, row.relayer, nonce=row.nonce, payment=row.payment, is_void=row.is_void)
    log.warning("%s is stuck; %s with a higher fee takes its place", row.tx, signed.tx)
    return 1
