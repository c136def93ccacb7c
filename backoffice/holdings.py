"""The picture of what was promised beside what the escrows hold, of each asset and on each chain."""

from collections import defaultdict
from decimal import Decimal
from typing import Any

from django.conf import settings

from allowance.console.figures import show_amount
from backoffice.pictures import Picture
from backoffice.queue.alarms import recent_pools
from chains.catalogue import alias_of
from payments.queries import find_newest_reconciliations

_NOTHING = Decimal(0)


def draw_holdings() -> Picture:
    """Draw each asset's promises beside the holdings on each chain, as of the last comparisons.

    A promise is not bound to a chain: a payment leaves the escrow on its payee's chain.
    """
    promised = {pool.asset: pool.promised for pool in recent_pools.read()}
    held = _find_held(list(promised))
    chains, assets = sorted(held), sorted(promised)
    rows = [[promised[asset], *(held[chain].get(asset, _NOTHING) for chain in chains)] for asset in assets]
    return Picture(
        "holdings",
        "Promised and held",
        _chart(assets, chains, rows),
        ("Asset", "Promised", *(f"Held on {chain}" for chain in chains)),
        [(asset, *map(show_amount, row)) for asset, row in zip(assets, rows, strict=True)],
    )


def _find_held(assets: list[str]) -> dict[str, dict[str, Decimal]]:
    """Find what each chain's escrow held of each asset, by the chain's alias."""
    held: dict[str, dict[str, Decimal]] = defaultdict(dict)
    for row in find_newest_reconciliations().filter(chain__in=settings.CHAINS, asset__in=assets):
        if row.is_of(settings.CHAINS[row.chain].escrow):
            held[alias_of(row.chain)][row.asset] = row.holds
    return held


def _chart(assets: list[str], chains: list[str], rows: list[list[Decimal]]) -> dict[str, Any]:
    """Give each asset two bars: what is promised, and the holdings of all chains on top of each other."""
    series = [{"label": "promised", "data": [figure for row in rows for figure in (float(row[0]), 0)]}]
    series += [
        {"label": chain, "data": [figure for row in rows for figure in (0, float(row[number]))]}
        for number, chain in enumerate(chains, start=1)
    ]
    labels = [label for asset in assets for label in (f"{asset} promised", f"{asset} held")]
    return {"type": "bar", "stacked": True, "labels": labels, "series": series, "unit": ""}
