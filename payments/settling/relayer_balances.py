"""Record what relayers hold for gas, and for how many more transactions it is enough.

The watcher observes their accounts. Between two observations, payments rely on what it recorded
(`deciding/sql/lock_and_read.sql`), and transactions in flight count at the most that they can cost. So no payment is
approved that could not be submitted for want of gas money. For what transactions have really cost, see
`payments.settling.transaction_costs`.
"""

import logging
from collections.abc import Mapping
from decimal import Decimal
from math import floor

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Max, Sum

from chains.port import RelayerState
from foundation.kernel.repeated_logs import log_once_a_minute
from foundation.kernel.times import utc_now
from payments.lifecycle import OPEN_STATES, SettlementState
from payments.models import Relayer, Settlement

log = logging.getLogger(__name__)


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
        # Locked as a payment locks it: the transactions in its queue are all written.
        relayer = Relayer.objects.select_for_update(no_key=True).get(pk=relayer.pk)
        relayer.mined_nonce = 0 if state.nonces is None else max(state.nonces.mined, _first_not_final(relayer))
        relayer.gas_balance, relayer.is_funded, relayer.seen_at = state.balance, is_funded, utc_now()
        relayer.most_cost = state.most_cost if has_key else None
        relayer.spendable = state.spendable - _cost_of_ended(open_before)
        relayer.funded_until = None
        if has_key and relayer.next_nonce is not None:
            relayer.funded_until = relayer.next_nonce + _count_affordable(relayer, state) - reserved_transactions()
        relayer.save(
            update_fields=(
                "mined_nonce", "gas_balance", "is_funded", "seen_at", "most_cost", "spendable", "funded_until",
            )
        )  # fmt: skip


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


def _first_not_final(relayer: Relayer) -> int:
    """Find the first nonce that no final block has used, by our own records, whatever nodes say now."""
    last = relayer.settlement_set.filter(state=SettlementState.FINAL).aggregate(last=Max("nonce"))["last"]
    return 0 if last is None else last + 1


def _count_affordable(relayer: Relayer, state: RelayerState) -> int:
    """Count how many more transactions the gas money pays for, beside all that were in no block when it was observed.

    Below 0, it does not even pay for those. A nonce without a transaction counts as one, because it will be filled.
    """
    rows = Settlement.objects.filter(relayer=relayer, state__in=OPEN_STATES, nonce__gte=relayer.mined_nonce)
    queue = rows.filter(chain=relayer.chain).aggregate(
        count=Count("pk"), known=Count("most_cost"), cost=Sum("most_cost")
    )
    queued = max(queue["count"], (relayer.next_nonce or 0) - relayer.mined_nonce)
    committed = (queue["cost"] or 0) + (queued - queue["known"]) * state.most_cost
    more: Decimal = (state.spendable - committed) / state.most_cost
    return floor(more)


def _cost_of_ended(open_before: Mapping[str, Decimal]) -> Decimal:
    """Sum the most that those could have cost that were open before and have ended since."""
    if not open_before:
        return Decimal(0)
    still_open = Settlement.objects.filter(pk__in=open_before, state__in=OPEN_STATES).values_list("pk", flat=True)
    ended = set(open_before) - set(still_open)
    return sum((open_before[tx] for tx in ended), Decimal(0))
