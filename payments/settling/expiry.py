"""When what has expired is proven never to have landed, on a chain whose escrow does not count payments itself.

That a transaction is absent says little there. The proof is about an id, and one payment can have others: a relayer's
key signs the same message in many ways, each of which makes another id; and a database that was restored does not know
what was signed after its backup. So nothing ends before the escrow's own history was searched past the last block that
could have it (`payments.reconciling.outflows` tells what was found there).
"""

from datetime import timedelta

from allowance.kernel.times import is_fresh, utc_now
from chains.port import ChainAdapter, Finality
from payments.models import DepositCursor, Settlement
from payments.settling.outcomes import is_late

# The search goes on every few seconds. After a longer break, such as until a backup was restored, something may be
# under way that is not known here: so many blocks later it has landed, or never will.
BREAK = timedelta(seconds=30)
LAST_BLOCKS = 300
# Until when a transaction can land is one node's word: it may be too low by as many blocks as are not final.
MARGIN = 64
# So many blocks the search may be behind what there is to be searched.
_MOST_BEHIND = 100


def note_break(chain: str, finality: Finality) -> None:
    """Note, if the escrow's history was not searched for a while, until when what is not known here can land."""
    cursor = DepositCursor.objects.filter(chain=chain).first()
    if cursor is not None and not is_fresh(cursor.moved_at, utc_now(), BREAK):
        DepositCursor.objects.filter(chain=chain).update(strays_until_height=finality.height + LAST_BLOCKS)


def find_search(chain: str, adapter: ChainAdapter) -> DepositCursor | None:
    """Find out how far the history of the escrow was searched; None: it was not."""
    return DepositCursor.objects.filter(chain=chain, escrow=adapter.escrow).first()


def can_end(row: Settlement, finality: Finality, search: DepositCursor | None, adapter: ChainAdapter) -> bool:
    """Tell whether a payment may end unpaid because its transaction is over: no other one can be in a block, or come.

    Where the escrow itself counts payments, that is no question of transactions.
    """
    if adapter.nonces is not None or row.valid_until_height is None:
        return True
    if not is_late(row, finality) or search is None or search.block_number is None:
        return False
    if not adapter.spends_from_escrow(bytes(row.raw)):
        # Signed for the escrow of earlier keys: this one's history says nothing of it (`rotate_keys`).
        return False
    last_height = max(row.valid_until_height + MARGIN, search.strays_until_height or 0)
    newest = finality.block_number - adapter.deposits_trail - _MOST_BEHIND
    return search.block_number >= max(last_height + finality.skipped, newest)
