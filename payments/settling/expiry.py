"""Prove that an expired transaction was never included, on a chain whose escrow does not count payments itself.

That one transaction is absent proves little there, because a payment can have others with different ids: a relayer's
key can sign the same message in many ways, and a restored database does not know what was signed after its backup. So
no payment ends unpaid before the escrow's own history was searched past the last block that could contain any of them
(`payments.reconciling.outflows` records what is found there).
"""

from datetime import timedelta

from chains.port import ChainAdapter, Finality
from foundation.kernel.times import is_fresh, utc_now
from payments.models import DepositCursor
from payments.settling.outcomes import is_past_deadline
from payments.settling.transaction_rows import AnyTransaction

# The search runs every few seconds. After a longer pause, such as until a backup was restored, transactions may be in
# flight that the database does not know: after this many blocks each is included, or never will be.
LONGEST_SEARCH_PAUSE = timedelta(seconds=30)
UNKNOWN_VALIDITY_BLOCKS = 300
# The last height at which a transaction can be included is one node's word. It may be too low by the number of blocks
# that are not final yet.
HEIGHT_MARGIN = 64
# The search may be this many blocks behind the newest block that can be searched.
_MAX_BLOCKS_BEHIND = 100


def record_search_pause(chain: str, finality: Finality) -> None:
    """Record, if the search of the escrow's history paused, until which height unknown transactions can be included."""
    cursor = DepositCursor.objects.filter(chain=chain).first()
    if cursor is not None and not is_fresh(cursor.moved_at, utc_now(), LONGEST_SEARCH_PAUSE):
        last_height = finality.height + UNKNOWN_VALIDITY_BLOCKS
        DepositCursor.objects.filter(chain=chain).update(strays_until_height=last_height)


def find_search_cursor(chain: str, adapter: ChainAdapter) -> DepositCursor | None:
    """Find how far the escrow's history was searched; None: it was not."""
    return DepositCursor.objects.filter(chain=chain, escrow=adapter.escrow.address).first()


def may_end_unpaid(
    row: AnyTransaction, finality: Finality, search: DepositCursor | None, adapter: ChainAdapter
) -> bool:
    """Tell whether a payment may end unpaid with its transaction: no other one is, or can be, in a block.

    Where the escrow itself counts payments, that does not depend on transactions.
    """
    if adapter.nonces is not None or row.valid_until_height is None:
        return True
    # A node that denies part of the history may be the one that does not hide a payment.
    searched = None if search is None else search.undisputed_block
    if not is_past_deadline(row, finality) or search is None or searched is None:
        return False
    if not adapter.preparer.spends_from_escrow(bytes(row.raw)):
        # Signed for the escrow of earlier keys: the history of this one says nothing of it (`rotate_keys`).
        return False
    last_height = max(row.valid_until_height + HEIGHT_MARGIN, search.strays_until_height or 0)
    newest = finality.block_number - adapter.escrow.deposits_trail - _MAX_BLOCKS_BEHIND
    return searched >= max(last_height + finality.skipped, newest)
