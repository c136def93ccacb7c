"""Search the escrow's history for what came in and what left, and record each event once.

A durable cursor says how far a chain was searched. It moves in the same transaction that records what was found,
credits deposits (`funding.deposits`) and ends payments (`reconciling.outflows`), so a crash, a restart or a second
watcher changes nothing. It passes final blocks only, so no reorganisation undoes what was recorded. Newer blocks are
read, too, but only to stop signing.

What most nodes say of a block counts. Where one says otherwise, the cursor moves on, but nothing is given back by what
was found or was missing there (`DepositCursor.disputed_after`): that waits until a later search finds all of one mind.
Source: docs/architecture.md.
"""

import logging
import math
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings

from chains.port import ChainAdapter, ChainUnavailable, Finality
from foundation.groups import GroupAway
from foundation.kernel.repeated_logs import log_once_a_minute
from foundation.kernel.times import is_fresh, utc_now
from payments.models import DepositCursor
from payments.reconciling.history_parts import GroupsAway, parts_of
from payments.reconciling.history_ranges import LONGEST, find_events, search_ranges
from payments.reconciling.history_records import commit_range, record_former, settle_dispute
from payments.reconciling.our_escrow import require_our_escrow
from payments.reconciling.outflows import stop_on_unknown

log = logging.getLogger(__name__)

# The search runs every few seconds. After a longer pause, such as until a backup was restored, transactions may be in
# flight that the database does not know: after this many blocks each is included, or never will be.
LONGEST_SEARCH_PAUSE = timedelta(seconds=30)
UNKNOWN_VALIDITY_BLOCKS = 300


def search_history(chain: str, adapter: ChainAdapter) -> int:
    """Search a chain's escrow up to its newest final block, and record events; returns how many deposits are new.

    Raises:
        ChainUnavailable: no node answered, or they contradict each other about a block; all before it is recorded.
    """
    finality = adapter.follower.find_finality()
    final = max(0, finality.block_number - adapter.escrow.deposits_trail)
    require_our_escrow(chain, adapter)
    searched = _find_cursor(chain, adapter.escrow.address, adapter.escrow.first_block, final)
    if adapter.nonces is None:
        record_search_pause(chain, finality)
    new, began_at = 0, utc_now()
    try:
        for before, last, found in search_ranges(partial(find_events, adapter), searched, final):
            credited = commit_range(chain, adapter.escrow.address, before, last, found)
            if credited is None:
                return new  # another watcher was faster, and continues
            new, searched = new + credited, last
        if searched < final:
            log.info("%s was searched up to block %s of %s", chain, searched, final)
        elif 0 < final == searched:
            # Not if the nodes are behind what they agreed on before, or too few of them say what is final.
            _check_newer_blocks(chain, adapter, finality)
            _search_disputed(chain, adapter)
    except (GroupAway, GroupsAway) as error:
        # What is missing is of nobody who decides now: the others go on.
        log_once_a_minute(log, logging.ERROR, "%s: %s", chain, error, about=chain)
        _complete(chain, adapter, began_at)
    return new


def record_search_pause(chain: str, finality: Finality) -> None:
    """Record, if the search of the escrow's history paused, until which height unknown transactions can be included."""
    cursor = DepositCursor.objects.filter(chain=chain).first()
    if cursor is not None and not is_fresh(cursor.moved_at, utc_now(), LONGEST_SEARCH_PAUSE):
        last_height = finality.height + UNKNOWN_VALIDITY_BLOCKS
        DepositCursor.objects.filter(chain=chain).update(strays_until_height=last_height)


def search_former_escrow(chain: str, adapter: ChainAdapter, *, after: int) -> int:
    """Search an escrow that is no longer in use, from the block `after` one; returns up to which block that was done.

    The cursor stays at the escrow in use. What was recorded before changes nothing.

    Raises:
        ChainUnavailable: as `search_history` does, or a node says otherwise than the others.
    """
    final = max(0, adapter.follower.find_finality().block_number - adapter.escrow.deposits_trail)
    searched = after
    for _, last, found in search_ranges(partial(find_events, adapter), after, final, longest_run_s=math.inf):
        if found.is_disputed:
            # What is missing there is taken for not done.
            raise ChainUnavailable("Nodes contradict each other about the history of the former escrow.")
        record_former(chain, adapter.escrow.address, found)
        searched = last
    return searched


def require_history(chain: str, adapter: ChainAdapter) -> None:
    """Check that the ledger knows what the escrow has done so far; search its history if it was not searched lately.

    So nothing is decided on a restored backup before what the backup does not know was found.

    Raises:
        ChainUnavailable: no node could tell, or there is more to search.
    """
    if not is_known(chain, adapter):
        search_history(chain, adapter)
        if not is_known(chain, adapter):
            raise ChainUnavailable("What the escrow has done so far is not known yet.")


def is_known(chain: str, adapter: ChainAdapter) -> bool:
    """Tell whether all that the escrow has done was recorded lately."""
    cursor = DepositCursor.objects.filter(chain=chain, escrow=adapter.escrow.address).first()
    age = timedelta(seconds=settings.CHAIN_STATE_MAX_AGE_S)
    return cursor is not None and is_fresh(cursor.complete_at, utc_now(), age)


def _check_newer_blocks(chain: str, adapter: ChainAdapter, finality: Finality) -> None:
    began_at, seen_up_to = utc_now(), finality.block_number
    ranges = search_ranges(adapter.escrow.peek, finality.block_number, finality.newest, length=LONGEST)
    for _, last, seen in ranges:
        stop_on_unknown(chain, parts_of(chain, seen))
        seen_up_to = last
    if seen_up_to >= finality.newest:
        _complete(chain, adapter, began_at)


def _complete(chain: str, adapter: ChainAdapter, at: datetime) -> None:
    DepositCursor.objects.filter(chain=chain, escrow=adapter.escrow.address).update(complete_at=at)


def _search_disputed(chain: str, adapter: ChainAdapter) -> None:
    """Search once more what nodes contradicted each other about; what all of them say by now is recorded as ever."""
    cursor = DepositCursor.objects.filter(chain=chain, escrow=adapter.escrow.address).first()
    if cursor is None or cursor.block_number is None or cursor.disputed_after is None:
        return
    ranges = search_ranges(partial(find_events, adapter), cursor.disputed_after, cursor.block_number)
    with suppress(ChainUnavailable):  # signing goes on
        for before, last, found in ranges:
            if found.is_disputed or not settle_dispute(chain, adapter.escrow.address, before, last, found):
                return


def _find_cursor(chain: str, escrow: str, first_block: int, final: int) -> int:
    """Find the newest block that was searched; in the beginning, the last one before the escrow existed."""
    before = max(0, first_block - 1)  # nothing can be deposited in block 0
    # That another escrow's history is known says nothing of this one's.
    started = {"escrow": escrow, "block_number": before, "moved_at": utc_now(), "complete_at": None}
    started |= {"disputed_after": None}
    known, _ = DepositCursor.objects.get_or_create(chain=chain, defaults=started)
    cursors = DepositCursor.objects.filter(chain=chain)
    if known.block_number is None:
        log.warning("%s is searched for deposits from block %s; earlier ones were credited by hand", chain, final)
        cursors.filter(block_number=None).update(**started | {"block_number": final})
    elif known.escrow != escrow:
        log.warning("%s has another escrow: %s is searched for deposits from block %s", chain, escrow, before)
        cursors.filter(escrow=known.escrow).update(**started)
    else:
        return known.block_number
    return cursors.values_list("block_number", flat=True).get() or 0
