"""Search the escrow's history for what came in and what left, and record each event once.

A durable cursor says how far a chain was searched. It moves in the same transaction that records what was found,
credits deposits (`funding.deposits`) and ends payments (`reconciling.outflows`), so a crash, a restart or a second
watcher changes nothing. It passes final blocks only, so no reorganisation undoes what was recorded. Newer blocks are
read, too, but only to stop signing.

Locks are taken in the order cursor, agents by id, transactions, payments, signing: a payment holds its agent's lock and
waits, of these, for signing only. Source: docs/architecture.md.
"""

import logging
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta

from django.conf import settings
from django.db import transaction

from allowance.kernel.errors import OperationRefused
from allowance.kernel.times import is_fresh, utc_now
from chains.port import ChainAdapter, ChainUnavailable, EscrowSearch, Finality
from payments.funding.deposits import UNREADABLE, record_deposits
from payments.lifecycle import SettlementState
from payments.models import DepositCursor, Settlement
from payments.reconciling.outflows import find_agents_of_voids, record_outflows_and_voids, stop_on_unknown
from payments.settling.expiry import record_search_pause
from payments.settling.relayers import find_rotation
from policy.models import Agent
from policy.operations import lock_agent

log = logging.getLogger(__name__)

# The first range of a run, in blocks; later ones are longer. Nodes limit the range, the number of events, or the time.
FIRST_LENGTH = 32
LONGEST = 2048
# The most that one transaction records: meanwhile, the agents concerned cannot pay and their payments cannot end.
MOST_AT_ONCE = 200
MOST_OUTFLOWS_AT_ONCE = 1_000
# A run ends after this, however many blocks are left; the next run goes on.
LONGEST_RUN_S = 10


def search_history(chain: str, adapter: ChainAdapter) -> int:
    """Search a chain's escrow up to its newest final block, and record events; returns how many deposits are new.

    Raises:
        ChainUnavailable: no node answered, or they contradict each other about a block; all before it is recorded.
    """
    finality = adapter.find_finality()
    final = max(0, finality.block_number - adapter.deposits_trail)
    _require_our_escrow(chain, adapter)
    searched = _find_cursor(chain, adapter.escrow, adapter.first_block, final)
    if adapter.nonces is None:
        record_search_pause(chain, finality)
    new = 0
    for before, last, found in _search_ranges(adapter, searched, final, end=time.monotonic() + LONGEST_RUN_S):
        credited = _commit(chain, adapter.escrow, before, last, found)
        if credited is None:
            return new  # another watcher was faster, and continues
        new, searched = new + credited, last
    if searched < final:
        log.info("%s was searched up to block %s of %s", chain, searched, final)
    elif 0 < final == searched:
        # Not if the nodes are behind what they agreed on before, or too few of them say what is final.
        _check_newer_blocks(chain, adapter, finality)
    return new


def search_former_escrow(chain: str, adapter: ChainAdapter, *, after: int) -> int:
    """Search an escrow that is no longer in use, from the block `after` one; returns up to which block that was done.

    The cursor stays at the escrow in use. What was recorded before changes nothing.

    Raises:
        ChainUnavailable: as `search_history` does.
    """
    final = max(0, adapter.find_finality().block_number - adapter.deposits_trail)
    searched = after
    for _, last, found in _search_ranges(adapter, after, final):
        with transaction.atomic():
            # Locked as in the search of the escrow in use: the two record what they find one after the other.
            list(DepositCursor.objects.select_for_update().filter(chain=chain))
            _record(chain, adapter.escrow, found)
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
    cursor = DepositCursor.objects.filter(chain=chain, escrow=adapter.escrow).first()
    age = timedelta(seconds=settings.CHAIN_STATE_MAX_AGE_S)
    return cursor is not None and is_fresh(cursor.complete_at, utc_now(), age)


def _check_newer_blocks(chain: str, adapter: ChainAdapter, finality: Finality) -> None:
    began_at = utc_now()
    stop_on_unknown(chain, adapter.peek_escrow(finality))
    DepositCursor.objects.filter(chain=chain, escrow=adapter.escrow).update(complete_at=began_at)


def _require_our_escrow(chain: str, adapter: ChainAdapter) -> None:
    """Before an escrow's history is searched for the first time, see that the escrow is ours.

    What a foreign contract says would be credited, and the history of the escrow in use left behind.
    """
    if DepositCursor.objects.filter(chain=chain, escrow=adapter.escrow).exclude(block_number=None).exists():
        return
    foreign = adapter.find_foreign(find_rotation(chain, adapter))
    if foreign:
        raise ChainUnavailable(f"Nothing is searched there: {' '.join(foreign)}")


def _find_cursor(chain: str, escrow: str, first_block: int, final: int) -> int:
    """Find the newest block that was searched; in the beginning, the last one before the escrow existed."""
    # Nothing can be deposited in block 0.
    before = max(0, first_block - 1)
    # That another escrow's history is known says nothing of this one's.
    started = {"escrow": escrow, "block_number": before, "moved_at": utc_now(), "complete_at": None}
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


def _search_ranges(
    adapter: ChainAdapter, after: int, final: int, *, end: float = math.inf
) -> Iterator[tuple[int, int, EscrowSearch]]:
    """Search the blocks behind `after` up to `final`, range by range; yields (block before, last, events).

    A range that the nodes refuse is halved, down to one block. No range is begun after `end` (monotonic seconds).
    """
    searched, length = after, FIRST_LENGTH
    while searched < final and time.monotonic() < end:
        last = min(searched + length, final)
        try:
            found = _find(adapter, searched + 1, last)
        except ChainUnavailable:
            if last == searched + 1:
                raise
            length = (last - searched) // 2
            continue
        yield searched, last, found
        searched, length = last, min(2 * length, LONGEST)


def _find(adapter: ChainAdapter, first: int, last: int) -> EscrowSearch:
    found = adapter.search_escrow(first, last, _find_ours)
    if any(not first <= number <= last for number in found.block_numbers()):
        raise ChainUnavailable("A node returned blocks that it was not asked for.")
    is_too_much = len(found.deposits) > MOST_AT_ONCE or len(found.outflows) > MOST_OUTFLOWS_AT_ONCE
    if is_too_much and first < last:
        raise ChainUnavailable("The range contains too many events to record at once.")
    return found


def _find_ours(txs: Sequence[str]) -> set[str]:
    """Return those of the transactions that are known to have paid; the adapter inspects all others."""
    final = Settlement.objects.filter(pk__in=txs, state=SettlementState.FINAL)
    return set(final.values_list("pk", flat=True))


def _commit(chain: str, escrow: str, searched: int, last: int, found: EscrowSearch) -> int | None:
    """Record what was found and move the cursor; returns how many deposits are new, None if the cursor had moved."""
    with transaction.atomic():
        moved = DepositCursor.objects.filter(chain=chain, block_number=searched).update(
            block_number=last, moved_at=utc_now()
        )
        if not moved:
            return None
        return _record(chain, escrow, found)


def _record(chain: str, escrow: str, found: EscrowSearch) -> int:
    """Record what was found; returns how many deposits are new. The caller has locked the cursor."""
    named = {one.named_agent for one in found.deposits if UNREADABLE not in one.named_agent}
    agents = _lock_agents(named | find_agents_of_voids(chain, found))
    new = record_deposits(chain, found.deposits, agents, escrow=escrow)
    record_outflows_and_voids(chain, found)
    return new


def _lock_agents(ids: Iterable[str]) -> Mapping[str, Agent]:
    """Lock those of the agents that exist, in the order of their ids."""
    agents = {}
    for agent_id in sorted(ids):
        try:
            agents[agent_id] = lock_agent(agent_id)
        except OperationRefused:
            continue
    return agents
