"""Pages of the console that help with more than one kind of trouble."""

from foundation.findings import Page

_OF_CHAIN = {"chain": "{subject}"}
_APPROVED = {"status__exact": "approved"}
CHAINS = Page("Chains", "payments_chainstate")
RELAYERS = Page("Relayers", "payments_relayer")
OPEN_OUTFLOWS = Page("Outflows that are not booked", "payments_outflow", {"state": "open"})
OPEN_OUTFLOWS_THERE = Page("Outflows that are not booked", "payments_outflow", {"state": "open", **_OF_CHAIN})
COMPARISONS = Page("Comparisons of the escrows with the ledger", "payments_reconciliation")
COMPARISONS_THERE = Page("Comparisons of the escrow with the ledger", "payments_reconciliation", _OF_CHAIN)
ON_THEIR_WAY = Page("Payments on their way, and their agents", "payments_payment", _APPROVED)
ON_THEIR_WAY_THERE = Page(
    "Payments on their way there, and their agents", "payments_payment", {**_APPROVED, **_OF_CHAIN}
)


def the_chain(chain: str) -> Page:
    """Name the page of a chain (CAIP-2)."""
    return Page("Look at the chain", "payments_chainstate", key=chain)


def comparisons_of(chain: str) -> Page:
    """Name the list of a chain's comparisons."""
    return Page("Compare", "payments_reconciliation", {"chain": chain})
