"""Format the results of `reconcile`, as table rows for people and as JSON for programs."""

from typing import Any

from chains.catalogue import alias_of
from foundation.kernel.money import format_amount
from payments.funding.pools import Pool
from payments.models import Outflow, Reconciliation, Verdict

ROW_HEAD = ("chain", "asset", "block", "holds", "booked", "in flight", "surplus", "verdict", "receipts", "wrong")
ROW_FORM = "{:<16} {:<6} {:>10} {:>18} {:>18} {:>14} {:>18}  {:<8} {:>8} {:>6}"
POOL_HEAD = ("all chains", "asset", "promised", "held", "surplus", "")
POOL_FORM = "{:<16} {:<6} {:>18} {:>18} {:>18}  {}"


def row_cells(row: Reconciliation) -> tuple[Any, ...]:
    """Format one comparison as a row. A surplus is the ordinary state of an escrow, so its verdict is "ok"."""
    amounts = (format_amount(amount) for amount in (row.holds, row.booked, row.in_flight, row.drift))
    verdict = Verdict.OK if row.verdict == Verdict.SURPLUS else row.verdict
    chain, unconfirmed = alias_of(row.chain), len(row.unconfirmed)
    return chain, row.asset, row.block_number, *amounts, verdict, row.receipts_checked, unconfirmed


def pool_cells(pool: Pool) -> tuple[Any, ...]:
    """Format one pool as a row."""
    remark = "too much is promised" if pool.is_overdrawn else ""
    if pool.not_compared:
        remark = f"{remark} without {', '.join(alias_of(chain) for chain in pool.not_compared)}".strip()
    return "", pool.asset, *(format_amount(one) for one in (pool.promised, pool.held, pool.surplus)), remark


def present_row(row: Reconciliation) -> dict[str, Any]:
    """Write one comparison as JSON."""
    return {
        "chain": row.chain,
        "asset": row.asset,
        "block": row.block_number,
        "holds": format_amount(row.holds),
        "booked": format_amount(row.booked),
        "inFlight": format_amount(row.in_flight),
        "drift": format_amount(row.drift),
        "verdict": row.verdict,
        "receiptsChecked": row.receipts_checked,
        "unconfirmed": row.unconfirmed,
    }


def present_pool(pool: Pool) -> dict[str, Any]:
    """Write one pool as JSON."""
    return {
        "asset": pool.asset,
        "promised": format_amount(pool.promised),
        "held": format_amount(pool.held),
        "surplus": format_amount(pool.surplus),
        "notCompared": list(pool.not_compared),
    }


def present_outflow(outflow: Outflow) -> dict[str, Any]:
    """Write one outflow as JSON."""
    return {
        "chain": outflow.chain,
        "tx": outflow.tx,
        "index": outflow.log_index,
        "block": outflow.block_number,
        "asset": outflow.asset,
        "amount": format_amount(outflow.amount),
        "recipient": outflow.recipient,
        "why": outflow.why,
    }
