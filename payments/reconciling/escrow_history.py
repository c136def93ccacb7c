"""The escrow's history: what came into it and what left it is found in its final blocks, and followed once.

A durable cursor says how far a chain was searched. It moves in the same transaction that writes down what was found,
credits deposits (`funding.deposits`) and ends payments (`reconciling.outflows`), so that a crash, a restart or a
second watcher changes nothing; and it only passes blocks that are final, so that no reorganisation takes that back.
What is newer is looked at, too, and only to stop.
Source: docs/architecture.md, "One settlement's way". Locks are taken in the order cursor, agents by id, transactions,
payments, signing: a payment holds an agent and waits for nothing but signing of these.
"""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
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
from policy.models import Agent
from policy.operations import lock_agent

log = logging.getLogger(__name__)

# The first range of a run, in blocks; those after it are longer. Nodes limit the range, what it holds, or the time.
FIRST_LENGTH = 32
LONGEST = 2048
# So much is followed in one transaction: meanwhile agents cannot pay, and payments cannot end.
MOST_AT_ONCE = 200
MOST_OUTFLOWS_AT_ONCE = 1_000
# A run ends after this, also in the middle of years of blocks: the next one goes on.
LONGEST_RUN_S = 10


def search_history(chain: str, adapter: ChainAdapter) -> int:
    """Follow what a chain's escrow did up to its newest final block; returns how many deposits were new.

    A range that the nodes refuse is halved, down to one block.

    Raises:
        ChainUnavailable: no node answered, or they contradict each other about a block; up to it, all is done.
    """
    finality = adapter.find_finality()
    final = max(0, finality.block_number - adapter.deposits_trail)
    searched = _find_cursor(chain, adapter.escrow, adapter.first_block, final)
    record_search_pause(chain, finality)
    end = time.monotonic() + LONGEST_RUN_S
    length, new = FIRST_LENGTH, 0
    while searched < final and time.monotonic() < end:
        last = min(searched + length, final)
        try:
            found = _find(adapter, searched + 1, last)
        except ChainUnavailable:
            if last == searched + 1:
                raise
            length = (last - searched) // 2
            continue
        credited = _commit(chain, adapter.escrow, searched, last, found)
        if credited is None:
            return new  # another watcher was faster, and goes on
        new, searched, length = new + credited, last, min(2 * length, LONGEST)
    if searched < final:
        log.info("%s was searched up to block %s of %s", chain, searched, final)
    elif 0 < final == searched:
        # Not where nodes are behind what they agreed on before, or too few say what is final.
        _look_ahead(chain, adapter, finality)
    return new


def search_left_escrow(chain: str, adapter: ChainAdapter, *, after: int) -> int:
    """Follow what an escrow did that is not in use any more, behind a final block; returns up to which one.

    The cursor stays where it is, at the escrow in use. What was followed before changes nothing.

    Raises:
        ChainUnavailable: as `search_history` does.
    """
    final = max(0, adapter.find_finality().block_number - adapter.deposits_trail)
    searched, length = after, FIRST_LENGTH
    while searched < final:
        last = min(searched + length, final)
        try:
            found = _find(adapter, searched + 1, last)
        except ChainUnavailable:
            if last == searched + 1:
                raise
            length = (last - searched) // 2
            continue
        with transaction.atomic():
            # Locked as whoever searches the escrow in use has it: the two follow what they find in turn.
            list(DepositCursor.objects.select_for_update().filter(chain=chain))
            _follow(chain, adapter.escrow, found)
        searched, length = last, min(2 * length, LONGEST)
    return searched


def require_history(chain: str, adapter: ChainAdapter) -> None:
    """See that the ledger knows what the escrow has done so far; search its history if that was not seen lately.

    So nothing is decided by a backup that was restored before what it does not know was found.

    Raises:
        ChainUnavailable: it cannot be told, or there is more to search.
    """
    if not is_known(chain, adapter):
        search_history(chain, adapter)
        if not is_known(chain, adapter):
            raise ChainUnavailable("What the escrow has done so far is not known yet.")


def is_known(chain: str, adapter: ChainAdapter) -> bool:
    """Tell whether the ledger has followed lately all that the escrow has done."""
    cursor = DepositCursor.objects.filter(chain=chain, escrow=adapter.escrow).first()
    age = timedelta(seconds=settings.CHAIN_STATE_MAX_AGE_S)
    return cursor is not None and is_fresh(cursor.complete_at, utc_now(), age)


def _look_ahead(chain: str, adapter: ChainAdapter, finality: Finality) -> None:
    began_at = utc_now()
    stop_on_unknown(chain, adapter.peek_escrow(finality))
    DepositCursor.objects.filter(chain=chain, escrow=adapter.escrow).update(complete_at=began_at)


def _find_cursor(chain: str, escrow: str, first_block: int, final: int) -> int:
    """Find the newest block in which the escrow was searched; at first, the last one before there was an escrow."""
    # Nothing can be deposited in block 0.
    before = max(0, first_block - 1)
    # That another escrow's history was known says nothing of this one's.
    started = {"escrow": escrow, "block_number": before, "moved_at": utc_now(), "complete_at": None}
    known, _ = DepositCursor.objects.get_or_create(chain=chain, defaults=started)
    cursors = DepositCursor.objects.filter(chain=chain)
    if known.block_number is None:
        log.warning("%s is searched for deposits from block %s on: earlier ones were credited by hand", chain, final)
        cursors.filter(block_number=None).update(**started | {"block_number": final})
    elif known.escrow != escrow:
        log.warning("%s has another escrow: %s is searched for deposits from block %s on", chain, escrow, before)
        cursors.filter(escrow=known.escrow).update(**started)
    else:
        return known.block_number
    return cursors.values_list("block_number", flat=True).get() or 0


def _find(adapter: ChainAdapter, first: int, last: int) -> EscrowSearch:
    found = adapter.search_escrow(first, last, _find_ours)
    if any(not first <= number <= last for number in found.block_numbers()):
        raise ChainUnavailable("A node tells of blocks that it was not asked about.")
    is_too_much = len(found.deposits) > MOST_AT_ONCE or len(found.outflows) > MOST_OUTFLOWS_AT_ONCE
    if is_too_much and first < last:
        raise ChainUnavailable("There is too much in the range to follow at once.")
    return found


def _find_ours(txs: Sequence[str]) -> set[str]:
    """Tell which transactions are known to have paid; any other that took something out is looked at."""
    final = Settlement.objects.filter(pk__in=txs, state=SettlementState.FINAL)
    return set(final.values_list("pk", flat=True))


def _commit(chain: str, escrow: str, searched: int, last: int, found: EscrowSearch) -> int | None:
    """Write down and credit what was found, and move the cursor; returns how many are new, None if it moved before."""
    with transaction.atomic():
        moved = DepositCursor.objects.filter(chain=chain, block_number=searched).update(
            block_number=last, moved_at=utc_now()
        )
        if not moved:
            return None
        return _follow(chain, escrow, found)


def _follow(chain: str, escrow: str, found: EscrowSearch) -> int:
    """Write down and credit what was found, with the cursor locked; returns how many deposits are new."""
    named = {one.named_agent for one in found.deposits if UNREADABLE not in one.named_agent}
    agents = _lock_agents(named | find_agents_of_voids(chain, found))
    new = record_deposits(chain, found.deposits, agents, escrow=escrow)
    record_outflows_and_voids(chain, found)
    return new


def _lock_agents(ids: Iterable[str]) -> Mapping[str, Agent]:
    """Lock the agents that exist, in the order of their ids."""
    agents = {}
    for agent_id in sorted(ids):
        try:
            agents[agent_id] = lock_agent(agent_id)
        except OperationRefused:
            continue
    return agents
