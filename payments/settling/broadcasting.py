"""Send signed transactions to the nodes of a chain.

Any process may repeat this at any time: sending the same bytes twice is one transfer, and exactly one process wins each
change of state (`settling.transitions`).
"""

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Min, Q

from allowance.kernel.repeated_logs import log_once_a_minute
from allowance.kernel.times import utc_now
from chains.port import ChainAdapter
from payments.lifecycle import SettlementState
from payments.models import Settlement
from payments.settling.transaction_queries import BATCH_SIZE
from payments.settling.transitions import StateChange, change_states, record_sending

log = logging.getLogger(__name__)

# A transaction that no node took, or that a worker was about to send when it died, is sent again after this.
RETRY_AFTER = timedelta(seconds=5)
# Beat starts this every second, and a sending is recorded a little after the start. Without the tolerance, a retry that
# is due half a second later would wait for the next start.
_TOLERANCE = timedelta(milliseconds=500)

UNCONFIRMED_STATES = (SettlementState.SIGNED, SettlementState.BROADCAST)


def broadcast(chain: str, adapter: ChainAdapter) -> int:
    """Send the signed transactions of a chain to its nodes, in nonce order; returns how many were accepted.

    A transaction that is refused stays `signed` and is sent again later; it does not hold up the other relayers.

    Raises:
        ChainUnavailable: no node answered; what was not accepted is sent again.
    """
    accepted_count = 0
    # Read once: what is sent in this run is not due again in it, however slow the nodes are.
    now = utc_now()
    while batch := _find_due(chain, now, adapter.resend_after):
        # Recorded before the sending: whoever reads the record knows that the bytes may be out.
        record_sending(batch)
        refusals = adapter.send([bytes(row.raw) for row in batch])
        for row, refusal in zip(batch, refusals, strict=True):
            if refusal is not None:
                log_once_a_minute(log, logging.WARNING, "No node accepts %s now: %s", row.tx, refusal, about=chain)
        accepted = [row for row, refusal in zip(batch, refusals, strict=True) if refusal is None]
        signed = [row for row in accepted if row.state == SettlementState.SIGNED]
        accepted_count += len(change_states([StateChange(row, SettlementState.BROADCAST) for row in signed]))
    return accepted_count


def _find_due(chain: str, now: datetime, resend_after: timedelta) -> list[Settlement]:
    """Find what to send now, within the number of transactions of one sender that nodes keep waiting.

    A transaction that a node accepted but that no block contains is sent again, because nodes forget.
    """
    unconfirmed = Settlement.objects.filter(chain=chain, state__in=UNCONFIRMED_STATES)
    first_nonces = dict(unconfirmed.values_list("relayer_id").annotate(first=Min("nonce")))
    if not first_nonces:
        return []
    is_within_queue = Q()
    for relayer_id, first in first_nonces.items():
        if first is None:
            is_within_queue |= Q(relayer_id=relayer_id, nonce=None)
        else:
            is_within_queue |= Q(relayer_id=relayer_id, nonce__lt=first + settings.MAX_IN_FLIGHT_PER_RELAYER)
    is_due = (
        Q(offered_at=None)
        | Q(state=SettlementState.SIGNED, offered_at__lt=now + _TOLERANCE - RETRY_AFTER)
        | Q(state=SettlementState.BROADCAST, offered_at__lt=now + _TOLERANCE - resend_after)
    )
    return list(unconfirmed.filter(is_within_queue, is_due).order_by("relayer_id", "nonce", "created_at")[:BATCH_SIZE])
