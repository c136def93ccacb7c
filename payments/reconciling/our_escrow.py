"""Whether the escrow of a chain is ours: asked before its history is searched for the first time."""

from chains.port import ChainAdapter, ChainUnavailable
from payments.models import DepositCursor
from payments.settling.relayers import find_rotation


def require_our_escrow(chain: str, adapter: ChainAdapter) -> None:
    """Before an escrow's history is searched for the first time, see that the escrow is ours.

    What a foreign contract says would be credited, and the history of the escrow in use left behind.

    Raises:
        ChainUnavailable: it is not ours, or no node can tell.
    """
    if was_searched(chain, adapter):
        return
    foreign = adapter.inspector.find_foreign(find_rotation(chain, adapter))
    if foreign:
        raise ChainUnavailable(f"Nothing is searched there: {' '.join(foreign)}")


def was_searched(chain: str, adapter: ChainAdapter) -> bool:
    """Tell whether the history of this escrow was ever searched: that of one that is not ours never is."""
    return DepositCursor.objects.filter(chain=chain, escrow=adapter.escrow.address).exclude(block_number=None).exists()
