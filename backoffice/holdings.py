"""What was promised beside what the escrows hold, of each asset and on each chain."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from django.conf import settings

from chains.catalogue import alias_of
from foundation.console.links import list_page
from foundation.kernel.money import EXACT
from payments.findings.money import recent_pools
from payments.queries import find_newest_reconciliations

_NOTHING = Decimal(0)


class Held(NamedTuple):
    """What a chain's escrow held of an asset, when it was compared last."""

    chain: str
    amount: Decimal
    url: str


@dataclass(frozen=True, slots=True)
class Holding:
    """An asset: what is promised of it, and what the chains hold. A promise is not bound to a chain.

    A payment leaves the escrow on its payee's chain.
    """

    asset: str
    promised: Decimal
    chains: Sequence[Held]
    url: str

    @property
    def held(self) -> Decimal:
        total = _NOTHING
        for one in self.chains:
            total = EXACT.add(total, one.amount)
        return total

    @property
    def share(self) -> Decimal | None:
        """The part of what is held that is promised; None: nothing is held."""
        return EXACT.divide(self.promised, self.held) if self.held > 0 else None


def find_holdings() -> list[Holding]:
    """Find each asset's promises and holdings, as of the last comparisons."""
    promised = {pool.asset: pool.promised for pool in recent_pools.read()}
    held = _find_held(list(promised))
    return [
        Holding(
            asset,
            promised[asset],
            [
                Held(alias_of(chain), held[chain][asset], list_page("payments_reconciliation", chain=chain))
                for chain in sorted(held, key=alias_of)
                if asset in held[chain]
            ],
            list_page("policy_agent", asset__exact=asset),
        )
        for asset in sorted(promised)
    ]


def _find_held(assets: list[str]) -> dict[str, dict[str, Decimal]]:
    """Find what each chain's escrow held of each asset."""
    held: dict[str, dict[str, Decimal]] = defaultdict(dict)
    for row in find_newest_reconciliations().filter(chain__in=settings.CHAINS, asset__in=assets):
        if row.is_of(settings.CHAINS[row.chain].escrow):
            held[row.chain][row.asset] = row.holds
    return held
