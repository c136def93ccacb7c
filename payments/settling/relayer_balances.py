"""Record what relayers hold for gas, and for how many more transactions it is enough.

The watcher observes their accounts. Between two observations, payments rely on what it recorded
(`deciding/sql/lock_and_read.sql`), and transactions in flight count at the most that they can cost. So no payment is
approved that could not be submitted for want of gas money. For what transactions have really cost, see
`payments.settling.transaction_costs`.
"""

import logging
from collections.abc import Mapping
from decimal import Decimal

from django.conf import settings
from django.db import transaction

from chains.port import RelayerState
from foundation.database import write_rows
from foundation.kernel.repeated_logs import log_once_a_minute
from foundation.kernel.times import utc_now
from payments.lifecycle import OPEN_STATES
from payments.models import Relayer, Settlement

log = logging.getLogger(__name__)

_LOCK = "SELECT id FROM payments_relayer WHERE id = %(id)s FOR NO KEY UPDATE"
# The first nonce that no block has used is not before what is final by our own records, whatever nodes say now. Of the
# gas money, all that was in no block when it was observed takes its part: a transaction that names no cost that of
# another one, and so does a nonce without a transaction, because it will be filled. What is left pays for so many more;
# below 0, it does not even pay for those.
_RECORD = """
    UPDATE payments_relayer AS relayer
       SET mined_nonce = first.nonce, gas_balance = %(balance)s, is_funded = %(is_funded)s, seen_at = %(now)s,
           most_cost = CASE WHEN %(has_key)s THEN %(most_cost)s::numeric END,
           spendable = %(spendable)s - %(ended)s,
           funded_until = CASE WHEN %(has_key)s THEN
               relayer.next_nonce + div(left_over.coins, %(most_cost)s) - (mod(left_over.coins, %(most_cost)s) < 0)::int
               - %(reserved)s END
      FROM (
               SELECT CASE WHEN %(mined)s::bigint IS NULL THEN 0 ELSE greatest(%(mined)s, max(nonce) + 1) END AS nonce
                 FROM payments_settlement WHERE relayer_id = %(id)s AND state = 'final'
           ) AS first,
           LATERAL (
               SELECT count(*) AS count, count(most_cost) AS known, COALESCE(sum(most_cost), 0) AS cost
                 FROM payments_settlement
                WHERE relayer_id = %(id)s AND chain = %(chain)s AND state = ANY(%(open)s::text[])
                  AND nonce >= first.nonce
           ) AS queue,
           LATERAL (
               SELECT %(spendable)s::numeric - queue.cost - %(most_cost)s * (
                   greatest(queue.count, (SELECT next_nonce FROM payments_relayer WHERE id = %(id)s) - first.nonce)
                   - queue.known) AS coins
           ) AS left_over
     WHERE relayer.id = %(id)s
"""


def find_open_costs(chain: str) -> dict[str, Decimal]:
    """Read the most that each open transaction can cost, by transaction id."""
    rows = Settlement.objects.filter(chain=chain, state__in=OPEN_STATES, most_cost__isnull=False)
    return {tx: cost for tx, cost in rows.values_list("pk", "most_cost") if cost is not None}


def record_relayer_state(
    relayer: Relayer, state: RelayerState, open_before: Mapping[str, Decimal], *, has_key: bool
) -> None:
    """Record what the chain says of a relayer, and take it out of rotation if it must not get payments.

    That is when its gas money does not pay for a full queue, or when we do not have its key. The latter is found anew
    each time, so that it is in rotation again once the seed is back. `open_before`, where relayers have no nonces: the
    costs of the transactions that were open before the chain was asked.
    """
    is_funded = has_key and state.affords >= settings.MAX_IN_FLIGHT_PER_RELAYER
    _log_end_of_rotation(relayer, state, is_funded=is_funded, has_key=has_key)
    with transaction.atomic():
        # Locked as a payment locks it, and by itself: the transactions in its queue are all written, and payments find
        # the other relayers.
        write_rows(_LOCK, {"id": relayer.pk})
        recorded = {
            "id": relayer.pk,
            "chain": relayer.chain,
            "mined": None if state.nonces is None else state.nonces.mined,
            "balance": state.balance,
            "is_funded": is_funded,
            "now": utc_now(),
            "has_key": has_key,
            "most_cost": state.most_cost,
            "spendable": state.spendable,
            "ended": _cost_of_ended(open_before),
            "reserved": reserved_transactions(),
            "open": list(OPEN_STATES),
        }
        write_rows(_RECORD, recorded)


def reserved_transactions() -> int:
    """Count for how many transactions payments leave gas money: for fillers, voids and higher fees."""
    most: int = settings.MAX_IN_FLIGHT_PER_RELAYER
    return max(1, most // 4)


def _log_end_of_rotation(relayer: Relayer, state: RelayerState, *, is_funded: bool, has_key: bool) -> None:
    if relayer.is_funded and not has_key:
        log.error("Relayer %s is out of rotation: it was registered with another RELAYER_SEED", relayer)
    elif has_key and not is_funded:
        log_once_a_minute(
            log, logging.WARNING, "Relayer %s is out of rotation: its gas money is down to %s", relayer,
            state.balance, about=relayer.pk,
        )  # fmt: skip


def _cost_of_ended(open_before: Mapping[str, Decimal]) -> Decimal:
    """Sum the most that those could have cost that were open before and have ended since."""
    if not open_before:
        return Decimal(0)
    still_open = Settlement.objects.filter(pk__in=open_before, state__in=OPEN_STATES).values_list("pk", flat=True)
    ended = set(open_before) - set(still_open)
    return sum((open_before[tx] for tx in ended), Decimal(0))
