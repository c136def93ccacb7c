"""Give out relayers' nonces, and leave none of them open, because an open nonce keeps all later ones waiting.

A nonce is never skipped: one that was left without a transaction is filled with one that moves nothing. Chains without
nonces need none of this. Source: docs/architecture.md.
"""

import logging
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Max, Q

from chains.port import ChainUnavailable, NonceAdapter, NonceState, Submitter
from foundation.database import fetch_rows
from foundation.kernel.repeated_logs import log_once_a_minute
from payments.deciding.signed_settlements import create_settlement
from payments.lifecycle import OPEN_STATES, SettlementState
from payments.models import Relayer, Settlement
from payments.settling.relayer_balances import reserved_transactions

log = logging.getLogger(__name__)

# Whether the chain is ahead of the database, the watcher finds out.
_FIND_STALE = """
    SELECT relayer.id, told.nonce
      FROM unnest(%(addresses)s::text[], %(nonces)s::bigint[]) AS told (address, nonce)
      JOIN payments_relayer AS relayer ON relayer.chain = %(chain)s AND relayer.address = told.address
     WHERE relayer.next_nonce >= told.nonce AND relayer.mined_nonce <> told.nonce
"""
# A payment that is being decided has locked its relayer. This waits for none of them: it would keep other payments from
# the relayers that it has locked by then.
_RECORD_FREE = """
    WITH free AS (
        SELECT id FROM payments_relayer WHERE id = ANY(%(ids)s::bigint[]) FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE payments_relayer AS relayer SET mined_nonce = told.nonce
      FROM unnest(%(ids)s::bigint[], %(nonces)s::bigint[]) AS told (id, nonce) JOIN free USING (id)
     WHERE relayer.id = told.id AND relayer.next_nonce >= told.nonce
 RETURNING relayer.id
"""
# Of the relayers that nodes were asked about: whose next nonce the chain or our own transactions are past, and who has
# open nonces. (A transaction that ended in another way than `final` was in no block, and left its nonce open.)
_FIND_TO_REPAIR = """
    SELECT relayer.id
      FROM unnest(%(ids)s::bigint[], %(finals)s::bigint[], %(firsts)s::bigint[]) AS told (id, final, first)
      JOIN payments_relayer AS relayer USING (id)
     WHERE relayer.next_nonce < told.final
        OR relayer.next_nonce <= (SELECT max(nonce) FROM payments_settlement WHERE relayer_id = relayer.id)
        OR least(relayer.next_nonce - told.first, %(most)s) > (
               SELECT count(DISTINCT nonce) FROM payments_settlement
                WHERE relayer_id = relayer.id AND nonce >= told.first AND nonce < relayer.next_nonce
                  AND nonce - told.first < %(most)s AND state = ANY(%(taking)s::text[]))
"""
# What takes a nonce.
_TAKING = (*OPEN_STATES, SettlementState.FINAL)
# A chain that claims to be further ahead than this is not believed: a relayer that jumped there could never come back.
MOST_NONCES_AHEAD = 10_000


def assign_nonce(chain: str, payments: int = 1) -> tuple[Relayer, Submitter]:
    """Give out the next nonce of an enabled relayer with a short queue, as a payment does. Call in a transaction.

    It is for a transaction of so many `payments`. For a single one the relayer may have less gas money than new
    payments need, which leave some for this.

    Raises:
        ChainUnavailable: no relayer is free.
    """
    queue_length = F("next_nonce") - F("mined_nonce")
    left = reserved_transactions() if payments == 1 else 0
    can_pay = Q(funded_until=None, is_funded=True) | Q(next_nonce__lte=F("funded_until") + left - payments)
    free = Relayer.objects.filter(can_pay, chain=chain, is_enabled=True, next_nonce__gte=F("mined_nonce"))
    relayer = free.select_for_update(skip_locked=True, no_key=True).order_by(queue_length, "number").first()
    if relayer is None or relayer.next_nonce is None:
        raise ChainUnavailable("No relayer is free.")
    nonce = relayer.next_nonce
    # As in sql/record.sql: the gas money is counted in payments.
    Relayer.objects.filter(pk=relayer.pk).update(next_nonce=nonce + 1, funded_until=F("funded_until") - (payments - 1))
    return relayer, Submitter(relayer.number, relayer.address, nonce)


def record_mined_nonces(chain: str, mined_nonces: Mapping[str, int]) -> None:
    """Record the first nonce that no block has used, by the address of the relayer."""
    if not mined_nonces:
        return
    told = {"chain": chain, "addresses": list(mined_nonces), "nonces": list(mined_nonces.values())}
    stale = dict(fetch_rows(_FIND_STALE, told))
    if not stale:
        return
    recorded = {pk for (pk,) in fetch_rows(_RECORD_FREE, {"ids": list(stale), "nonces": list(stale.values())})}
    for pk, nonce in stale.items():
        if pk not in recorded:  # a busy relayer is waited for while no other one is held
            Relayer.objects.filter(pk=pk, next_nonce__gte=nonce).update(mined_nonce=nonce)


def is_plausible(nonces: NonceState) -> bool:
    """Tell whether the nonces that nodes claim for a new relayer's account are to be believed."""
    return nonces.mined - nonces.final <= MOST_NONCES_AHEAD


def find_to_repair(seen: Mapping[int, NonceState]) -> list[int]:
    """Find the relayers (by their keys in the database) whose nonces need repair, by what the chain says of each.

    Repair is `catch_up_nonces`, then `fill_open_nonces`.
    """
    told = {
        "ids": list(seen),
        "finals": [one.final for one in seen.values()],
        "firsts": [_first_unused(one) for one in seen.values()],
        "most": settings.MAX_IN_FLIGHT_PER_RELAYER,
        "taking": list(_TAKING),
    }
    return [pk for (pk,) in fetch_rows(_FIND_TO_REPAIR, told)]


def catch_up_nonces(relayer: Relayer, seen: NonceState) -> None:
    """Go on from the chain's nonce if the account was used by others, or from our own if the database was set back."""
    newest = relayer.settlement_set.aggregate(newest=Max("nonce"))["newest"]
    if newest is not None and Relayer.objects.filter(pk=relayer.pk, next_nonce__lte=newest).update(
        next_nonce=newest + 1
    ):
        log.error("Relayer %s: its next nonce was set back, and is %s again", relayer, newest + 1)
    ahead = seen.final - (relayer.next_nonce or 0)
    if ahead > MOST_NONCES_AHEAD:
        log_once_a_minute(
            log,
            logging.ERROR,
            "Relayer %s: the chain is said to be %s nonces ahead, which is not believed",
            relayer,
            ahead,
            about=relayer.pk,
        )
    elif ahead > 0:
        relayers = Relayer.objects.filter(pk=relayer.pk, next_nonce__lt=seen.final)
        if relayers.update(next_nonce=seen.final):
            log.error("Relayer %s: the chain is %s nonces ahead; its key is used elsewhere", relayer, ahead)


def fill_open_nonces(relayer: Relayer, seen: NonceState, adapter: NonceAdapter, state: Mapping[str, Any]) -> None:
    """Sign a transaction that moves nothing for each nonce that was given out and has none."""
    with transaction.atomic():
        # Locked as a payment locks it: a nonce that has no transaction now is not about to get one.
        relayer = Relayer.objects.select_for_update(no_key=True).get(pk=relayer.pk)
        for nonce in _find_open_nonces(relayer, _first_unused(seen)):
            signed = adapter.prepare_filler(Submitter(relayer.number, relayer.address, nonce), state)
            if Settlement.objects.filter(pk=signed.tx).exists():
                continue  # the very same filler was signed before; with another fee it will be another one
            create_settlement(signed, relayer, nonce=nonce)
            log.warning("Relayer %s: nonce %s was left open and is filled by %s", relayer, nonce, signed.tx)


def _first_unused(seen: NonceState) -> int:
    return max(seen.mined, seen.final)


def _find_open_nonces(relayer: Relayer, first: int) -> list[int]:
    """Find the nonces that were given out, that no block has used, and that no transaction waits to use."""
    window = range(first, min(relayer.next_nonce or 0, first + settings.MAX_IN_FLIGHT_PER_RELAYER))
    rows = Settlement.objects.filter(relayer=relayer, nonce__gte=first, nonce__lt=window.stop, state__in=_TAKING)
    return sorted(set(window) - set(rows.values_list("nonce", flat=True)))
