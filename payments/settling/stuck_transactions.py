"""Replace transactions that no block includes for too long by ones with a higher fee.

Both use the same nonce, so at most one of the two can be included. Source: docs/architecture.md.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Min, Q

from chains.port import ChainAdapter, NonceAdapter, Submitter
from foundation.kernel.repeated_logs import log_once_a_minute
from foundation.kernel.times import utc_now
from payments.deciding.signed_settlements import create_settlement
from payments.lifecycle import SettlementState
from payments.models import Payment, Relayer, Settlement
from payments.settling.broadcasting import UNCONFIRMED_STATES
from payments.settling.relayers import has_key_of
from payments.settling.state_changes import StateChange
from payments.settling.transaction_rows import TransactionRow, read_rows
from payments.settling.transitions import change_states

log = logging.getLogger(__name__)

# A transaction that expires sooner than this is not worth a higher fee.
_WORTH_REPLACING = timedelta(minutes=2)


def raise_stuck_fees(chain: str, adapter: ChainAdapter, state: Mapping[str, Any]) -> int:
    """Replace the stuck transactions at the heads of the relayers' queues; returns how many.

    The replaced transaction is kept: whichever of the two is included counts.
    """
    nonces = adapter.nonces
    if nonces is None:
        return 0
    unconfirmed = Settlement.objects.filter(chain=chain, state__in=UNCONFIRMED_STATES)
    heads = dict(unconfirmed.values_list("relayer_id").annotate(head=Min("nonce")))
    is_head = Q(pk=None)
    for relayer_id, nonce in heads.items():
        is_head |= Q(relayer_id=relayer_id, nonce=nonce)
    now = utc_now()
    # A transaction that its relayer cannot pay for is accepted by no node; a higher fee would not help.
    stuck = unconfirmed.exclude(state=SettlementState.SIGNED, relayer__is_funded=False).filter(
        is_head,
        Q(valid_until=None) | Q(valid_until__gt=now + _WORTH_REPLACING),
        offered_at__isnull=False,
        changed_at__lt=now - timedelta(seconds=settings.STUCK_AFTER_S),
    )
    relayers = {one.pk: one for one in Relayer.objects.filter(chain=chain) if has_key_of(one, adapter)}
    rows = read_rows(stuck.filter(relayer__in=relayers))
    return sum(_replace(row, relayers[row.relayer_id], nonces, state) for row in rows)


def _replace(row: TransactionRow, relayer: Relayer, nonces: NonceAdapter, state: Mapping[str, Any]) -> int:
    submitter = Submitter(relayer.number, relayer.address, row.nonce)
    # From the newest one, which has the highest fee, even if an earlier one is open again after a reorganisation.
    of_payment = Q(first_payment__in=[leg.payment_id for leg in row.legs]) if row.legs else Q(first_payment=None)
    newest = relayer.settlement_set.filter(of_payment, nonce=row.nonce, is_void=row.is_void)[0]
    signed = nonces.raise_fee(bytes(newest.raw), submitter, state)
    if signed is None:
        log_once_a_minute(
            log, logging.ERROR, "%s is stuck, and its fee is the highest that is allowed", row.tx, about=row.chain
        )
        return 0
    with transaction.atomic():
        reason = f"Stuck: {signed.tx} has a higher fee."
        if not change_states([StateChange(row, SettlementState.REPLACED, reason)]):
            return 0
        # The contents are the same, and so is the deadline.
        signed = replace(signed, valid_until=row.valid_until)
        carried = list(Payment.objects.filter(pk__in=[leg.payment_id for leg in row.legs]).order_by("pk"))
        # What the replaced one goes on without, this one does, too.
        left_out = {leg.payment_id: leg.skipped for leg in row.legs if leg.skipped is not None}
        create_settlement(signed, relayer, nonce=row.nonce, payments=carried, is_void=row.is_void, left_out=left_out)
    log.warning("%s is stuck and replaced by %s, which has a higher fee", row.tx, signed.tx)
    return 1
