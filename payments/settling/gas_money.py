"""What relayers have for gas, and how far it goes beside all that they have under way.

The watcher looks at their accounts; between two looks payments count on what it saw (`sql/lock_and_read.sql`), and what
is under way counts at the most that it can cost. So nothing is approved that could not be submitted for want of money.
"""

import logging
from collections.abc import Mapping
from decimal import Decimal
from math import floor

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Max, Sum

from allowance.kernel.repeated_logs import log_once_a_minute
from allowance.kernel.times import utc_now
from chains.port import RelayerState
from payments.lifecycle import OPEN_STATES, SettlementState
from payments.models import Relayer, Settlement

log = logging.getLogger(__name__)


def find_under_way(chain: str) -> dict[str, Decimal]:
    """Read what transactions under way cost at most, by id."""
    rows = Settlement.objects.filter(chain=chain, state__in=OPEN_STATES, most_cost__isnull=False)
    return {tx: cost for tx, cost in rows.values_list("pk", "most_cost") if cost is not None}


def record_relayer_state(
    relayer: Relayer, sighting: RelayerState, under_way: Mapping[str, Decimal], *, is_ours: bool
) -> None:
    """Keep what was seen; without the gas money for a full line a relayer is out of rotation.

    Nor does one pay that we have no key of (`is_ours`): that is found anew each time, so that it is over when the seed
    is back. `under_way`: what was, before that was seen, where relayers have no nonces.
    """
    is_funded = is_ours and sighting.affords >= settings.MAX_IN_FLIGHT_PER_RELAYER
    if relayer.is_funded and not is_ours:
        log.error("Relayer %s is out of rotation: it was registered with another RELAYER_SEED", relayer)
    elif is_ours and not is_funded:
        log_once_a_minute(
            log, logging.WARNING, "Relayer %s is out of rotation: its gas money is down to %s", relayer,
            sighting.balance, about=relayer.pk,
        )  # fmt: skip
    with transaction.atomic():
        # Locked as a payment locks it: what it has under way is written.
        relayer = Relayer.objects.select_for_update(no_key=True).get(pk=relayer.pk)
        relayer.mined_nonce = 0 if sighting.nonces is None else max(sighting.nonces.mined, _first_not_final(relayer))
        relayer.gas_balance, relayer.is_funded, relayer.seen_at = sighting.balance, is_funded, utc_now()
        relayer.most_cost = sighting.most_cost if is_ours else None
        relayer.spendable = sighting.spendable - _ended_of(under_way)
        relayer.funded_until = None
        if is_ours and relayer.next_nonce is not None:
            relayer.funded_until = relayer.next_nonce + _affords_more(relayer, sighting) - kept_back()
        relayer.save(
            update_fields=(
                "mined_nonce", "gas_balance", "is_funded", "seen_at", "most_cost", "spendable", "funded_until",
            )
        )  # fmt: skip


def kept_back() -> int:
    """Count for how many transactions payments leave gas money: for what frees some, and for higher fees."""
    most: int = settings.MAX_IN_FLIGHT_PER_RELAYER
    return max(1, most // 4)


def _first_not_final(relayer: Relayer) -> int:
    """Find the first nonce that no final block has used, as far as we know ourselves, whatever nodes say now."""
    last = relayer.settlement_set.filter(state=SettlementState.FINAL).aggregate(last=Max("nonce"))["last"]
    return 0 if last is None else last + 1


def _affords_more(relayer: Relayer, sighting: RelayerState) -> int:
    """Count how many more transactions the gas money pays for, beside all that no block had when it was looked at.

    Below 0: it does not even pay for those. What has a nonce and no transaction yet gets one that fills it.
    """
    rows = Settlement.objects.filter(relayer=relayer, state__in=OPEN_STATES, nonce__gte=relayer.mined_nonce)
    line = rows.filter(chain=relayer.chain).aggregate(
        count=Count("pk"), known=Count("most_cost"), cost=Sum("most_cost")
    )
    in_line = max(line["count"], (relayer.next_nonce or 0) - relayer.mined_nonce)
    committed = (line["cost"] or 0) + (in_line - line["known"]) * sighting.most_cost
    more: Decimal = (sighting.spendable - committed) / sighting.most_cost
    return floor(more)


def _ended_of(under_way: Mapping[str, Decimal]) -> Decimal:
    """Sum what those could have cost that were under way and have come to an end since."""
    if not under_way:
        return Decimal(0)
    still = Settlement.objects.filter(pk__in=under_way, state__in=OPEN_STATES).values_list("pk", flat=True)
    ended = set(under_way) - set(still)
    return sum((under_way[tx] for tx in ended), Decimal(0))
