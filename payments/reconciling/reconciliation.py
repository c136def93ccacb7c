"""Reconciliation: what the escrows hold is compared with what the ledger says, and settled payments with the chain.

It only reads, and it never repairs: it raises an alarm and, if money is missing, stops signing on the chain; if more is
promised than all escrows hold, at once on every chain that has the asset.
Source: docs/architecture.md, "What must always be true", 2, 3 and 7.
"""

import logging
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal

from django.conf import settings

from allowance.kernel.money import EXACT, format_amount
from allowance.kernel.repeated_logs import log_once_a_minute
from allowance.kernel.times import utc_now
from chains.port import ChainAdapter, Finality
from payments.funding.expected_holdings import (
    ExpectedHoldings,
    Imbalance,
    SettledBefore,
    chains_with,
    find_imbalances,
    read_expected_holdings,
)
from payments.funding.pools import Pool, read_pools
from payments.models import ChainState, DepositCursor, Reconciliation, Verdict
from payments.queries import find_newest_reconciliations
from payments.reconciling.settled_payments import PAGES_PER_RUN, Checked, check_settled_payments
from payments.reconciling.verification import snapshot
from payments.settling.chain_switch import stop_signing_on

log = logging.getLogger(__name__)


def reconcile(chain: str, adapter: ChainAdapter, *, is_thorough: bool = False) -> list[Reconciliation]:
    """Compare, for each served asset of a chain, what the escrow holds with what the ledger says, as of one block.

    Returns nothing if it cannot be told now: while the search of the escrow's history is not as far as the chain, or
    the nodes are behind what they said last time. `is_thorough`: sum up and check all payments ever settled,
    whatever earlier runs found.

    Why no payment, however it falls, looks like missing money: the block is chosen and the escrow read first, the
    ledger after it, in one snapshot. The search of the escrow's history has passed the block, and with it, in the same
    transaction, credited the deposits, settled the payments and landed the withdrawals that it found. So whatever is in
    the block is in the snapshot, and what is in the snapshot and in a later block says so by its number. Movements by
    hand have no block: what was added was there before (`funding.credits`), what was taken is promised no more. Even
    so, signing is stopped only by two runs in a row that find money missing; what is promised and not there at all
    (`payments.funding.pools`) stops it at once.

    Raises:
        ChainUnavailable: no node answered, or they contradict each other.
    """
    finality = adapter.find_finality()
    block_number = _find_block(chain, adapter, finality)
    newest = {row.asset: row for row in find_newest_reconciliations().filter(chain=chain)}
    if block_number is None or any(row.block_number > block_number for row in newest.values()):
        log_once_a_minute(
            log,
            logging.WARNING,
            "%s is not compared with the ledger now: the deposits or the nodes are behind",
            chain,
            about=chain,
        )
        return []
    holdings = adapter.find_holdings(block_number)
    carried = {asset: _carry(None if is_thorough else newest.get(asset)) for asset in holdings}
    with snapshot():
        books = {
            asset: read_expected_holdings(chain, asset, block_number, escrow=adapter.escrow, carried=carried[asset])
            for asset in holdings
        }
    rows = []
    for asset, holds in holdings.items():
        previous = newest.get(asset)
        checked = check_settled_payments(
            chain, asset, adapter, finality, books=books[asset], carried=carried[asset],
            doubtful=previous.unconfirmed if previous else (), pages=None if is_thorough else PAGES_PER_RUN,
        )  # fmt: skip
        if previous is not None and _is_before(checked.carried, _carry(previous)):
            # A thorough check that did not come to its end is no reason to begin again each time.
            checked = replace(checked, carried=_carry(previous))
        row = _compare(holds, books[asset], checked)
        row.chain, row.asset, row.escrow, row.block_number = chain, asset, adapter.escrow, block_number
        _keep(row, previous)
        _raise_alarm(row, previous)
        rows.append(row)
    if chain in settings.CHAINS:  # what is on others is no part of what agents are paid with
        check_pools(holdings)
    return rows


def check_pools(assets: Iterable[str]) -> list[Pool]:
    """Compare what is promised of these assets with what all escrows hold; stops signing if that is not enough."""
    with snapshot():
        pools = read_pools(assets)
    for pool in pools:
        if pool.is_overdrawn:
            log.error("%s", pool)
            if -pool.surplus > settings.RECONCILE_STOP_ABOVE:
                _stop_asset(pool)
    return pools


def check_books() -> list[Imbalance]:
    """Compare the agents' balances with what came in and what was spent; tells of each asset that does not fit."""
    with snapshot():
        imbalances = find_imbalances()
    for one in imbalances:
        log.error(
            "The balances in %s are %s; what came in, less what was spent, is %s",
            one.asset,
            one.balances,
            one.explained,
        )
    return imbalances


def _find_block(chain: str, adapter: ChainAdapter, finality: Finality) -> int | None:
    """Find the newest final block up to which this escrow was searched; None: there is none that is new enough."""
    cursor = DepositCursor.objects.filter(chain=chain).first()
    if (
        cursor is None
        or cursor.block_number is None
        or cursor.escrow not in ("", adapter.escrow)
        or cursor.block_number < finality.block_number - adapter.most_blocks_behind
    ):
        return None
    return min(cursor.block_number, finality.block_number)


def _carry(previous: Reconciliation | None) -> SettledBefore:
    return SettledBefore() if previous is None else SettledBefore(previous.settled_until, previous.settled_total)


def _is_before(carried: SettledBefore, other: SettledBefore) -> bool:
    return other.until is not None and (carried.until is None or carried.until < other.until)


def _compare(holds: Decimal, books: ExpectedHoldings, checked: Checked) -> Reconciliation:
    return Reconciliation(
        holds=holds,
        booked=books.booked,
        in_flight=books.in_flight,
        drift=EXACT.subtract(holds, books.booked),
        settled_until=checked.carried.until,
        settled_total=checked.carried.total,
        receipts_checked=checked.count,
        unconfirmed=checked.unconfirmed,
        created_at=utc_now(),
    )


def _keep(row: Reconciliation, previous: Reconciliation | None) -> None:
    """Write a comparison down: in place of the one before, if that is of the same day and says the same.

    So the table has a row a day and one for each change. Each that found money missing stays, but for a second one
    as of the same block.
    """
    if previous is not None and _says_the_same(row, previous):
        row.pk = previous.pk
    row.save()


def _says_the_same(row: Reconciliation, previous: Reconciliation) -> bool:
    found = (row.verdict, row.unconfirmed, row.created_at.date())
    is_same = row.escrow == previous.escrow and found == (
        previous.verdict,
        previous.unconfirmed,
        previous.created_at.date(),
    )
    return is_same and (row.verdict != Verdict.MISSING or row.block_number == previous.block_number)


def _raise_alarm(row: Reconciliation, previous: Reconciliation | None) -> None:
    for payment_id in row.unconfirmed:
        log.error("Payment %s is settled, and %s does not confirm it", payment_id, row.chain)
    if row.verdict != Verdict.MISSING:
        return
    missing = f"{format_amount(row.missing)} {row.asset}"
    log.error("Money is missing on %s: as of block %s, %s", row.chain, row.block_number, missing)
    threshold = settings.RECONCILE_STOP_ABOVE
    was_missing = previous is not None and previous.block_number < row.block_number and previous.missing > threshold
    if row.missing > threshold and was_missing:
        reason = f"The escrow holds {missing} less than the ledger says."
        stop_signing_on(row.chain, reason=reason)


def _stop_asset(pool: Pool) -> None:
    """Stop signing on every chain that has the asset; nothing is signed on one that was never observed."""
    open_chains = ChainState.objects.filter(chain__in=chains_with(pool.asset), stopped_reason="")
    for chain in open_chains.order_by("chain").values_list("chain", flat=True):
        stop_signing_on(chain, reason=str(pool))
