"""Reconciliation compares the escrows' holdings with the ledger, and settled payments with the chain.

It never repairs anything. If money is missing, it raises an alarm and stops signing on the chain. If more is promised
than all escrows hold, it stops signing at once on every chain that has the asset. Source: docs/architecture.md.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal

from django.conf import settings

from chains.port import ChainAdapter, Finality
from foundation.kernel.money import EXACT, format_amount
from foundation.kernel.repeated_logs import log_once_a_minute
from foundation.kernel.times import utc_now
from payments.funding.expected_holdings import (
    ExpectedHoldings,
    Imbalance,
    SettledBefore,
    books,
    chains_with,
    find_imbalances,
    read_expected_holdings,
)
from payments.funding.pools import Pool, read_pools
from payments.models import ChainState, DepositCursor, Reconciliation, Verdict
from payments.queries import find_newest_reconciliations
from payments.reconciling.settled_payments import PAGES_PER_RUN, Checked, check_settled_payments
from payments.settling.chain_switch import stop_signing_on

log = logging.getLogger(__name__)

# The author of what the comparison does by itself.
RECONCILIATION = "reconciliation"


def reconcile(chain: str, adapter: ChainAdapter, *, is_thorough: bool = False) -> list[Reconciliation]:
    """Compare, for each served asset of a chain, the escrow's holdings with the ledger, as of one block.

    Returns nothing if that is not possible now: while the search of the escrow's history is behind the chain, or the
    nodes are behind what they said last time. `is_thorough`: add up and check all payments ever settled, whatever
    earlier runs found.

    A payment never looks like missing money, whenever it happens. The block is chosen and the escrow read first; the
    ledger is read afterwards, as of one moment. By then, the search of the escrow's history has passed the block, and
    until then has credited the deposits, settled the payments and landed the withdrawals that it found. So
    whatever is in the block is in the snapshot, and whatever is in the snapshot and in a later block carries that
    block's number. Movements by hand have no block: a credit was covered by what was there before (`funding.credits`),
    a deduction is promised no more. Even so, signing is stopped only when two runs in a row find money missing; a
    promise beyond all holdings (`payments.funding.pools`) stops it at once.

    Raises:
        ChainUnavailable: no node answered, or they contradict each other.
    """
    finality = adapter.follower.find_finality()
    block_number = _find_searched_block(chain, adapter, finality)
    newest = {row.asset: row for row in find_newest_reconciliations().filter(chain=chain)}
    if block_number is None or any(row.block_number > block_number for row in newest.values()):
        log_once_a_minute(
            log,
            logging.WARNING,
            "%s is not compared with the ledger now: the search of its escrow's history or its nodes are behind",
            chain,
            about=chain,
        )
        return []
    rows = _compare_assets(chain, adapter, finality, block_number, newest, is_thorough=is_thorough)
    if chain in settings.CHAINS:  # agents are paid out of the escrows of served chains only
        check_pools(row.asset for row in rows)
    return rows


def check_pools(assets: Iterable[str]) -> list[Pool]:
    """Compare the promises of these assets with the holdings of all escrows; stop signing where they exceed them."""
    with books():
        pools = read_pools(assets)
    for pool in pools:
        if pool.is_overdrawn:
            log.error("%s", pool)
            if -pool.surplus > settings.RECONCILE_STOP_ABOVE:
                _stop_asset(pool)
    return pools


def check_balances() -> list[Imbalance]:
    """Compare the agents' balances with what came in and what was spent; returns and logs what does not fit."""
    with books():
        imbalances = find_imbalances()
    for one in imbalances:
        log.error(
            "The balances in %s are %s; what came in, less what was spent, is %s",
            one.asset,
            one.balances,
            one.explained,
        )
    return imbalances


def _compare_assets(
    chain: str,
    adapter: ChainAdapter,
    finality: Finality,
    block_number: int,
    newest: Mapping[str, Reconciliation],
    *,
    is_thorough: bool,
) -> list[Reconciliation]:
    """Compare each asset as of a block, after the `newest` comparison of each; save the results and raise alarms."""
    holdings = adapter.escrow.find_holdings(block_number)
    checked_before = {asset: _settled_before(None if is_thorough else newest.get(asset)) for asset in holdings}
    with books():
        expected = {
            asset: read_expected_holdings(
                chain, asset, block_number, escrow=adapter.escrow.address, settled_before=checked_before[asset]
            )
            for asset in holdings
        }
    rows = []
    for asset, holds in holdings.items():
        previous = newest.get(asset)
        checked = check_settled_payments(
            chain, asset, adapter, finality, expected=expected[asset], checked_before=checked_before[asset],
            recheck=previous.unconfirmed if previous else (), pages=None if is_thorough else PAGES_PER_RUN,
        )  # fmt: skip
        if previous is not None and _is_before(checked.settled_before, _settled_before(previous)):
            # A thorough check that was cut short must not set back how far the usual checks have come.
            checked = replace(checked, settled_before=_settled_before(previous))
        row = _compare(holds, expected[asset], checked)
        row.chain, row.asset, row.escrow, row.block_number = chain, asset, adapter.escrow.address, block_number
        _save(row, previous)
        _raise_alarm(row, previous)
        rows.append(row)
    return rows


def _find_searched_block(chain: str, adapter: ChainAdapter, finality: Finality) -> int | None:
    """Find the newest final block up to which this escrow was searched; None: the search is too far behind."""
    cursor = DepositCursor.objects.filter(chain=chain).first()
    if (
        cursor is None
        or cursor.block_number is None
        or cursor.escrow not in ("", adapter.escrow.address)
        or cursor.block_number < finality.block_number - adapter.escrow.most_blocks_behind
    ):
        return None
    return min(cursor.block_number, finality.block_number)


def _settled_before(previous: Reconciliation | None) -> SettledBefore:
    return SettledBefore() if previous is None else SettledBefore(previous.settled_until, previous.settled_total)


def _is_before(one: SettledBefore, other: SettledBefore) -> bool:
    return other.until is not None and (one.until is None or one.until < other.until)


def _compare(holds: Decimal, expected: ExpectedHoldings, checked: Checked) -> Reconciliation:
    return Reconciliation(
        holds=holds,
        booked=expected.booked,
        in_flight=expected.in_flight,
        drift=EXACT.subtract(holds, expected.booked),
        settled_until=checked.settled_before.until,
        settled_total=checked.settled_before.total,
        receipts_checked=checked.count,
        unconfirmed=checked.unconfirmed,
        created_at=utc_now(),
    )


def _save(row: Reconciliation, previous: Reconciliation | None) -> None:
    """Save a comparison, in place of the previous one if that is of the same day and has the same result.

    So the table has one row a day and one for each change. Every comparison that found money missing is kept, except a
    second one as of the same block.
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
        log.error(
            "Payment %s is settled, but %s does not confirm it", payment_id, row.chain, extra={"paymentId": payment_id}
        )
    if row.verdict != Verdict.MISSING:
        return
    missing = f"{format_amount(row.missing)} {row.asset}"
    log.error("Money is missing on %s: as of block %s, %s", row.chain, row.block_number, missing)
    threshold = settings.RECONCILE_STOP_ABOVE
    was_missing = previous is not None and previous.block_number < row.block_number and previous.missing > threshold
    if row.missing > threshold and was_missing:
        reason = f"The escrow holds {missing} less than the ledger says."
        stop_signing_on(row.chain, by=RECONCILIATION, reason=reason)


def _stop_asset(pool: Pool) -> None:
    """Stop signing on every chain that has the asset. On a chain that was never observed, nothing is signed anyway."""
    open_chains = ChainState.objects.filter(chain__in=chains_with(pool.asset), stopped_reason="")
    for chain in open_chains.order_by("chain").values_list("chain", flat=True):
        stop_signing_on(chain, by=RECONCILIATION, reason=str(pool))
