"""Record what a search of the escrow's history found, each event once, and how far it was searched.

Locks are taken in the order cursor, agents by id, transactions, payments, signing: a payment holds its agent's lock and
waits, of these, for signing only. Source: docs/architecture.md.
"""

from collections.abc import Sequence

from django.db import transaction
from django.db.models import Value
from django.db.models.functions import Least

from chains.port import EscrowSearch
from foundation.groups import WHOLE, within
from foundation.kernel.times import utc_now
from payments.funding.deposits import UNREADABLE, record_deposits
from payments.models import DepositCursor
from payments.reconciling.history_parts import Part, parts_of
from payments.reconciling.outflows import find_agents_of_voids, record_outflows_and_voids, stop_on_unknown
from policy.parents import lock_agents


def commit_range(chain: str, escrow: str, searched: int, last: int, found: EscrowSearch) -> int | None:
    """Record what was found and move the cursor; returns how many deposits are new, None if the cursor had moved."""
    *of_groups, rest = parts_of(chain, found)
    new = _record_parts(chain, escrow, of_groups, rest)
    with within(rest.group), transaction.atomic():
        cursors = DepositCursor.objects.filter(chain=chain, block_number=searched)
        # If another range before it was disputed already, it stays so from there. (The least skips a null.)
        changes = {"disputed_after": Least("disputed_after", Value(searched))} if found.is_disputed else {}
        if not cursors.update(block_number=last, moved_at=utc_now(), **changes):
            return None
        return new + record_events(chain, escrow, rest.found)


def settle_dispute(chain: str, escrow: str, before: int, last: int, found: EscrowSearch) -> bool:
    """Record what all nodes say; returns False if another watcher was faster."""
    *of_groups, rest = parts_of(chain, found)
    _record_parts(chain, escrow, of_groups, rest)
    with within(rest.group), transaction.atomic():
        cursors = DepositCursor.objects.select_for_update(no_key=True).filter(chain=chain, escrow=escrow)
        cursor = cursors.filter(disputed_after=before).first()
        if cursor is None:
            return False
        cursor.disputed_after = last if last != cursor.block_number else None
        cursor.save(update_fields=["disputed_after"])
        record_events(chain, escrow, rest.found)
    return True


def _record_parts(chain: str, escrow: str, parts: Sequence[Part], rest: Part) -> int:
    """Record what is of groups, each in a transaction of its own, before the cursor moves past all of it.

    What was recorded already changes nothing, so whoever was cut off does it again. What no group knows stops signing
    before it is recorded: that takes all groups, and no transaction is in several.
    """
    if rest.group != WHOLE:
        stop_on_unknown(chain, [*parts, rest])
    new = 0
    for part in parts:
        with within(part.group), transaction.atomic():
            new += record_events(chain, escrow, part.found)
    return new


def record_former(chain: str, escrow: str, found: EscrowSearch) -> None:
    """Record what a search of an escrow that is no longer in use has found; no cursor moves."""
    *of_groups, rest = parts_of(chain, found)
    _record_parts(chain, escrow, of_groups, rest)
    with within(rest.group), transaction.atomic():
        # Locked as in the search of the escrow in use: the two record what they find one after the other.
        list(DepositCursor.objects.select_for_update().filter(chain=chain))
        record_events(chain, escrow, rest.found)


def record_events(chain: str, escrow: str, found: EscrowSearch) -> int:
    """Record what was found; returns how many deposits are new. The caller has locked the cursor."""
    named = {one.named_agent for one in found.deposits if UNREADABLE not in one.named_agent}
    agents = lock_agents(named | find_agents_of_voids(chain, found))
    new = record_deposits(chain, found.deposits, agents, escrow=escrow)
    record_outflows_and_voids(chain, found)
    return new
