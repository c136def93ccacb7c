"""Check settled payments against the chain once more, some time after each was settled."""

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from django.db.models import QuerySet

from chains.port import ChainAdapter, ChainUnavailable, Fate, Finality, Inclusion, PaymentFate
from foundation.groups import read_of
from foundation.kernel.assets import Asset
from foundation.kernel.money import EXACT
from foundation.kernel.repeated_logs import log_once_a_minute
from foundation.kernel.times import utc_now
from payments.funding.expected_holdings import ExpectedHoldings, SettledBefore
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Leg, Payment, Settlement
from payments.settling.transaction_rows import BATCH_SIZE, LegRow, query_of, read_rows

log = logging.getLogger(__name__)

# No database transaction stays open for this long: a payment that was settled earlier is committed, or never will be.
SETTLED_FOR = timedelta(minutes=10)
# A run checks about PAGE_SIZE * PAGES_PER_RUN payments of an asset; the next run goes on.
PAGE_SIZE = 1_000
PAGES_PER_RUN = 5
_NEXT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Checked:
    """How far the settled payments of an asset were checked, how many were, and which the chain does not confirm."""

    settled_before: SettledBefore
    count: int
    unconfirmed: list[str]


def check_settled_payments(
    chain: str,
    asset: Asset,
    adapter: ChainAdapter,
    finality: Finality,
    *,
    expected: ExpectedHoldings,
    checked_before: SettledBefore,
    recheck: Sequence[str],
    pages: int | None,
) -> Checked:
    """Check the payments that were settled since `checked_before`, in at most `pages`, and those to `recheck`.

    Where the chain cannot tell, the check stops, and the next run goes on from there.
    """
    settled = Payment.objects.filter(chain=chain, asset=asset, status=PaymentStatus.SETTLED)
    newest = utc_now() - SETTLED_FOR
    end = min(newest, expected.paid_before or newest)
    count, total, unconfirmed = 0, checked_before.total, list(recheck)
    until = checked_before.until
    with _postponed_if_unavailable(chain):
        unconfirmed = _find_unconfirmed(settled.filter(pk__in=recheck), adapter, finality)
    with _postponed_if_unavailable(chain):
        for page, reached in islice(_pages(settled, checked_before.until, end), pages):
            unconfirmed += _find_unconfirmed(page, adapter, finality)
            for payment in page:
                total = EXACT.add(total, payment.amount)
            count, until = count + len(page), reached
    return Checked(SettledBefore(until, total), count, sorted(set(unconfirmed)))


@contextmanager
def _postponed_if_unavailable(chain: str) -> Iterator[None]:
    try:
        yield
    except ChainUnavailable as error:
        log_once_a_minute(
            log, logging.WARNING, "Settled payments on %s will be checked later: %s", chain, error, about=chain
        )


def _pages(
    settled: QuerySet[Payment], since: datetime | None, end: datetime
) -> Iterator[tuple[list[Payment], datetime]]:
    """Page through the payments that were settled between two moments; yields each page and the moment it ends at."""
    while since is None or since < end:
        page = settled.filter(settled_at__lt=end) if since is None else settled.filter(settled_at__range=(since, end))
        moments = page.order_by("settled_at").values_list("settled_at", flat=True)[PAGE_SIZE - 1 : PAGE_SIZE]
        # Many payments are settled at the same moment: a page contains all of them.
        since = min([end, *(moment + _NEXT for moment in moments if moment is not None)])
        yield list(page.filter(settled_at__lt=since)), since


def _find_unconfirmed(payments: Iterable[Payment], adapter: ChainAdapter, finality: Finality) -> list[str]:
    ids = {payment.pk for payment in payments}
    # A settled payment without a final transaction is not confirmed by anything.
    return sorted(ids.difference(read_of(None, lambda: _find_confirmed(ids, adapter, finality))))


def _find_confirmed(ids: Collection[str], adapter: ChainAdapter, finality: Finality) -> set[str]:
    """Find which of these payments of a group the chain confirms, by the transactions of that group."""
    final = Leg.objects.filter(
        payment__in=ids, is_void=False, skipped=None, settlement__state=SettlementState.FINAL
    ).values_list("settlement")
    rows = read_rows(Settlement.objects.filter(pk__in={tx for (tx,) in final}).order_by("pk"))
    confirmed: set[str] = set()
    for start in range(0, len(rows), BATCH_SIZE):
        batch = rows[start : start + BATCH_SIZE]
        queries = [query_of(row) for row in batch]
        inclusions = adapter.follower.find_inclusions(queries, finality).inclusions
        fates = adapter.prover.find_fates(queries, finality)
        for row in batch:
            inclusion, fate = inclusions.get(row.tx), fates[row.tx]
            confirmed |= {leg.payment_id for leg in row.to_pay if _is_confirmed(leg, inclusion, fate)}
    return confirmed


def _is_confirmed(leg: LegRow, inclusion: Inclusion | None, fate: Fate) -> bool:
    """Tell whether a transaction is still included and the escrow has paid; a missing receipt alone says nothing.

    Raises:
        ChainUnavailable: the nodes do not tell, or contradict each other.
    """
    if fate.payments[leg.escrow_id] is PaymentFate.UNKNOWN:
        raise ChainUnavailable("No node can tell what the escrow has paid.")
    is_included = inclusion is not None and inclusion.failure is None and leg.escrow_id not in inclusion.skipped
    return is_included and fate.payments[leg.escrow_id] is PaymentFate.PAID
