"""Send signed transactions to the nodes of a chain.

Any process may repeat this at any time: sending the same bytes twice is one transfer, and exactly one process wins each
change of state (`settling.transitions`).
"""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from django.conf import settings

from chains.port import ChainAdapter
from foundation.database import fetch_rows
from foundation.kernel.repeated_logs import log_once_a_minute
from foundation.kernel.times import utc_now
from payments.lifecycle import SettlementState
from payments.settling.progress import Step, log_steps, tally_changes
from payments.settling.state_rows import StateWrite, write_states
from payments.settling.transaction_rows import BATCH_SIZE

log = logging.getLogger(__name__)

# A transaction that no node took, or that a worker was about to send when it died, is sent again after this; and so is
# the first in a relayer's queue: if the nodes have forgotten it, all behind it wait.
RETRY_AFTER = timedelta(seconds=5)
# Beat starts this every second, and a sending is recorded a little after the start. Without the tolerance, a retry that
# is due half a second later would wait for the next start.
_TOLERANCE = timedelta(milliseconds=500)

_FIND_STEPS = """
    SELECT leg.tx, leg.payment_id, leg.agent_id, payment.escrow_id
      FROM payments_leg AS leg JOIN payments_payment AS payment ON payment.id = leg.payment_id
     WHERE leg.tx = ANY(%(txs)s::text[]) ORDER BY leg.tx, leg.payment_id
"""
# Within the number of transactions of one sender that nodes keep waiting. One that a node accepted but that no block
# contains is sent again, because nodes forget. Of two processes at once, one takes each row.
_TAKE_DUE = """
    WITH head AS (
        SELECT relayer_id, min(nonce) AS nonce FROM payments_settlement
         WHERE chain = %(chain)s AND state = ANY(%(unconfirmed)s::text[]) GROUP BY relayer_id
    ),
    due AS (
        SELECT one.tx, one.state, one.offered_at FROM payments_settlement AS one JOIN head USING (relayer_id)
         WHERE one.chain = %(chain)s AND one.state = ANY(%(unconfirmed)s::text[])
           AND (one.nonce < head.nonce + %(most)s OR head.nonce IS NULL AND one.nonce IS NULL)
           AND (one.offered_at IS NULL
                OR one.offered_at < %(retry_before)s AND (one.state = 'signed' OR one.nonce = head.nonce)
                OR one.offered_at < %(resend_before)s AND one.state = 'broadcast')
         ORDER BY relayer_id, one.nonce, one.created_at LIMIT %(limit)s
    ),
    locked AS (
        SELECT one.tx FROM payments_settlement AS one JOIN due USING (tx)
         WHERE one.state = due.state AND one.offered_at IS NOT DISTINCT FROM due.offered_at
         ORDER BY one.tx FOR UPDATE OF one
    )
    UPDATE payments_settlement AS settlement SET offered_at = %(now)s
      FROM locked WHERE settlement.tx = locked.tx
 RETURNING settlement.tx, settlement.state, settlement.raw, relayer_id, nonce, created_at
"""

UNCONFIRMED_STATES = (SettlementState.SIGNED, SettlementState.BROADCAST)


class _Due(NamedTuple):
    """A transaction that is to be sent now."""

    tx: str
    state: str
    raw: bytes
    relayer_id: int
    nonce: int | None
    created_at: datetime


def broadcast(chain: str, adapter: ChainAdapter) -> int:
    """Send the signed transactions of a chain to its nodes, in nonce order; returns how many were accepted.

    A transaction that is refused stays `signed` and is sent again later; it does not hold up the other relayers.

    Raises:
        ChainUnavailable: no node answered; what was not accepted is sent again.
    """
    accepted_count = 0
    # Read once: what is sent in this run is not due again in it, however slow the nodes are.
    now = utc_now()
    while batch := _take_due(chain, now, adapter.broadcaster.resend_after):
        refusals = adapter.broadcaster.send([bytes(one.raw) for one in batch])
        for one, refusal in zip(batch, refusals, strict=True):
            if refusal is not None:
                log_once_a_minute(log, logging.WARNING, "No node accepts %s now: %s", one.tx, refusal, about=chain)
        accepted = [one for one, refusal in zip(batch, refusals, strict=True) if refusal is None]
        signed = [one for one in accepted if one.state == SettlementState.SIGNED]
        sent = [StateWrite(one.tx, old=SettlementState.SIGNED, new=SettlementState.BROADCAST) for one in signed]
        written = write_states(sent, utc_now())
        tally_changes((chain, SettlementState.BROADCAST) for _ in written)
        if written:
            log_steps(_read_steps(chain, written))
        accepted_count += len(written)
    return accepted_count


def _take_due(chain: str, now: datetime, resend_after: timedelta) -> list[_Due]:
    """Record the sending of what is to be sent now, in nonce order.

    It is recorded before it happens: whoever reads the record knows that the bytes may be out.
    """
    taken = fetch_rows(
        _TAKE_DUE,
        {
            "chain": chain,
            "unconfirmed": list(UNCONFIRMED_STATES),
            "most": settings.MAX_IN_FLIGHT_PER_RELAYER,
            "retry_before": now + _TOLERANCE - RETRY_AFTER,
            "resend_before": now + _TOLERANCE - resend_after,
            "limit": BATCH_SIZE,
            "now": utc_now(),
        },
    )
    return sorted((_Due(*row) for row in taken), key=lambda one: (one.relayer_id, one.nonce or 0, one.created_at))


def _read_steps(chain: str, txs: Iterable[str]) -> list[Step]:
    """Read whose payments these transactions make: those that only use a nonce up make none."""
    legs = fetch_rows(_FIND_STEPS, {"txs": list(txs)})
    state = SettlementState.BROADCAST.value
    return [Step(payment_id, agent_id, escrow_id, chain, tx, state) for tx, payment_id, agent_id, escrow_id in legs]
