"""What is wrong with chains, money and payments, and what waits there for a person."""

from foundation.findings import Finder
from payments.findings import chains, money, relayers, under_way, waiting

# What matters equally stands in this order: missing money hides behind nothing. Of a chain, `/readyz` says the first.
FINDERS: tuple[Finder, ...] = (
    *money.FINDERS,
    *chains.FINDERS,
    *relayers.FINDERS,
    *under_way.FINDERS,
    *waiting.FINDERS,
)
