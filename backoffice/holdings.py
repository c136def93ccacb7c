"""The picture of what was promised beside what the escrows hold, of each asset and on each chain."""

from collections import defaultdict
from decimal import Decimal

from django.conf import settings

from allowance.console.figures import show_amount
from backoffice.pictures import Picture
from backoffice.queue.items import chain_name
from payments.funding.pools import read_pools
from payments.queries import find_newest_reconciliations


def draw_holdings() -> Picture:
    """Draw each asset's promises beside the holdings on each chain, as of the last comparisons.

    A promise is not bound to a chain: a payment leaves the escrow on its payee's chain.
    """
    promised = {pool.asset: pool.promised for pool in read_pools()}
    held: dict[str, dict[str, Decimal]] = defaultdict(dict)
    for row in find_newest_reconciliations().filter(chain__in=settings.CHAINS, asset__in=promised):
        if row.is_of(settings.CHAINS[row.chain].escrow):
            held[chain_name(row.chain)][row.asset] = row.holds
    chains, assets = sorted(held), sorted(promised)
    series = [{"label": "promised", "data": [number for asset in assets for number in (float(promised[asset]), 0)]}]
    series += [
        {"label": chain, "data": [number for asset in assets for number in (0, float(held[chain].get(asset, 0)))]}
        for chain in chains
    ]
    labels = [label for asset in assets for label in (f"{asset} promised", f"{asset} held")]
    return Picture(
        "holdings",
        "Promised and held",
        {"type": "bar", "stacked": True, "labels": labels, "series": series, "unit": ""},
        ("Asset", "Promised", *(f"Held on {chain}" for chain in chains)),
        [
            (
                asset,
                *(show_amount(one) for one in (promised[asset], *(held[c].get(asset, Decimal(0)) for c in chains))),
            )
            for asset in assets
        ],
    )
