"""Record what a search of the escrow's history found, each event once, and how far it was searched.

Locks are taken in the order cursor, agents by id, transactions, payments, signing: a payment holds its agent's lock and
waits, of these, for signing only. Source: docs/architecture.md.
"""

from django.db import transaction
from django.db.models import Value
from django.db.models.functions import Least

from chains.port import EscrowSearch
from foundation.kernel.times import utc_now
from payments.funding.deposits import UNREADABLE, record_deposits
from payments.models import DepositCursor
from payments.reconciling.outflows import find_agents_of_voids, record_outflows_and_voids
from policy.parents import lock_agents


def commit_range(chain: str, escrow: str, searched: int, last: int, found: EscrowSearch) -> int | None:
    """Record what was found and move the cursor; returns how many deposits are new, None if the cursor had moved."""
    with transaction.atomic():
        cursors = DepositCursor.objects.filter(chain=chain, block_number=searched)
        # If another range before it was disputed already, it stays so from there. (The least skips a null.)
        changes = {"disputed_after": Least("disputed_after", Value(searched))} if found.is_disputed else {}
        if not cursors.update(block_number=last, moved_at=utc_now(), **changes):
            return None
        return record_events(chain, escrow, found)


def settle_dispute(chain: str, escrow: str, before: int, last: int, found: EscrowSearch) -> bool:
    """Record what all nodes say; returns False if another watcher was faster."""
    with transaction.atomic():
        cursors = DepositCursor.objects.select_for_update(no_key=True).filter(chain=chain, escrow=escrow)
        cursor = cursors.filter(disputed_after=before).first()
        if cursor is None:
            return False
        cursor.disputed_after = last if last != cursor.block_number else None
        cursor.save(update_fields=["disputed_after"])
        record_events(chain, escrow, found)
    return True


def record_events(chain: str, escrow: str, found: EscrowSearch) -> int:
    """Record what was found; returns how many deposits are new. The caller has locked the cursor."""
    named = {one.named_agent for one in found.deposits if UNREADABLE not in one.named_agent}
    agents = lock_agents(named | find_agents_of_voids(chain, found))
    new = record_deposits(chain, found.deposits, agents, escrow=escrow)
    record_outflows_and_voids(chain, found)
    return new
