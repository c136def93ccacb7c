"""Deposits: what came into an escrow is found in its final blocks, and credited once. With them `strays` are found.

A durable cursor says how far a chain was searched. It moves in the same transaction that writes down what was found
and credits it, so that a crash, a restart or a second watcher changes nothing; and it only passes blocks that are
final, so that no reorganisation takes back what was credited.
Source: design.md, "Settlement". Locks are taken in the order cursor, deposit, agents by id, signing: a payment holds an
agent and waits for nothing but signing of these.
"""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence

from django.db import transaction

from allowance.kernel.errors import OperationRefused
from allowance.kernel.times import utc_now
from ledger.models import MovementKind
from ledger.operations import move_balance
from payments.chains.base import ChainAdapter, ChainUnavailable, DepositSighting, EscrowSearch
from payments.models import Deposit, DepositCursor, DepositState, Settlement
from payments.strays import adopt_strays, note_break
from policy.models import Agent
from policy.operations import lock_agent

log = logging.getLogger(__name__)

# Who the author of a movement is that nobody made by hand.
WATCHER = "deposit"
# The first range of a run, in blocks; those after it are longer. Nodes limit the range, what it holds, or the time.
FIRST_LENGTH = 32
LONGEST = 2048
# So many deposits are credited in one transaction: meanwhile their agents cannot pay.
MOST_AT_ONCE = 200
# A run ends after this, also in the middle of years of blocks: the next one goes on.
LONGEST_RUN_S = 10
# Stands for bytes that are no UTF-8: a text that has it is not exactly what was sent.
_UNREADABLE = "\N{REPLACEMENT CHARACTER}"


def watch_deposits(chain: str, adapter: ChainAdapter) -> int:
    """Find and credit what came into a chain's escrow up to its newest final block; returns how many were new.

    Those that can be credited to nobody are kept aside. A range that the nodes refuse is halved, down to one block.

    Raises:
        ChainUnavailable: no node answered, or they contradict each other about a block; up to it, all is done.
    """
    finality = adapter.find_finality()
    final = max(0, finality.block_number - adapter.deposits_trail)
    searched = _find_cursor(chain, adapter.escrow, adapter.first_block, final)
    note_break(chain, finality)
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
        credited = _commit(chain, searched, last, found)
        if credited is None:
            return new  # another watcher was faster, and goes on
        new, searched, length = new + credited, last, min(2 * length, LONGEST)
    if searched < final:
        log.info("%s was searched for deposits up to block %s of %s", chain, searched, final)
    return new


def credit_deposit(deposit_id: int, *, agent_id: str, by: str) -> Deposit:
    """Credit a deposit that was put aside, once.

    Raises:
        OperationRefused: no such deposit or agent, it is credited already, or the agent's allowance is in another
            asset.
    """
    with transaction.atomic():
        deposit = Deposit.objects.select_for_update(no_key=True).filter(pk=deposit_id).first()
        if deposit is None:
            raise OperationRefused(f"There is no deposit {deposit_id}.")
        if deposit.state == DepositState.CREDITED:
            raise OperationRefused(f"The deposit {deposit} was credited to {deposit.agent_id} already.")
        agent = lock_agent(agent_id)
        if agent.asset != deposit.asset:
            raise OperationRefused(_other_asset(agent, deposit.asset))
        _credit(deposit, agent, by)
        deposit.save()
    return deposit


def _find_cursor(chain: str, escrow: str, first_block: int, final: int) -> int:
    """Find the newest block in which the escrow was searched; at first, the last one before there was an escrow."""
    # Nothing can be deposited in block 0.
    before = max(0, first_block - 1)
    started = {"escrow": escrow, "block_number": before, "moved_at": utc_now()}
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
    blocks = [one.block_number for one in found.deposits] + [one.block_number for one in found.strays]
    if any(not first <= number <= last for number in blocks):
        raise ChainUnavailable("A node tells of blocks that it was not asked about.")
    if len(found.deposits) > MOST_AT_ONCE and first < last:
        raise ChainUnavailable("There are too many deposits in the range to credit at once.")
    return found


def _find_ours(txs: Sequence[str]) -> set[str]:
    return set(Settlement.objects.filter(pk__in=txs).values_list("pk", flat=True))


def _commit(chain: str, searched: int, last: int, found: EscrowSearch) -> int | None:
    """Write down and credit what was found, and move the cursor; returns how many are new, None if it moved before."""
    with transaction.atomic():
        moved = DepositCursor.objects.filter(chain=chain, block_number=searched).update(
            block_number=last, moved_at=utc_now()
        )
        if not moved:
            return None
        # None is known, unless somebody set the cursor back.
        rows = Deposit.objects.filter(chain=chain, tx__in={one.tx for one in found.deposits})
        known = set(rows.values_list("tx", "log_index"))
        new = [one for one in found.deposits if (one.tx, one.log_index) not in known]
        agents = _lock_agents(new)
        for one in new:
            _keep(chain, one, agents.get(one.named_agent))
        adopt_strays(chain, found.strays)
    return len(new)


def _lock_agents(found: Iterable[DepositSighting]) -> Mapping[str, Agent]:
    """Lock the agents that are named, those that exist, in the order of their ids."""
    agents = {}
    for name in sorted({one.named_agent for one in found if _UNREADABLE not in one.named_agent}):
        try:
            agents[name] = lock_agent(name)
        except OperationRefused:
            continue
    return agents


def _keep(chain: str, found: DepositSighting, agent: Agent | None) -> None:
    deposit = Deposit(
        chain=chain,
        tx=found.tx,
        log_index=found.log_index,
        block_number=found.block_number,
        depositor=found.depositor,
        token=found.token,
        asset=found.asset,
        amount=found.amount,
        named_agent=found.named_agent,
        found_at=utc_now(),
    )
    if found.asset is None:
        deposit.note = f"The token {found.token} is not served."
    elif agent is None:
        deposit.note = "There is no agent of this name." if found.named_agent else "It names no agent."
    elif agent.asset != found.asset:
        deposit.note = _other_asset(agent, found.asset)
    else:
        _credit(deposit, agent, WATCHER)
    if deposit.note:
        deposit.state = DepositState.ASIDE
        log.warning("The deposit %s on %s is kept aside: %s", deposit, chain, deposit.note)
    deposit.save()


def _credit(deposit: Deposit, agent: Agent, by: str) -> None:
    """Credit a deposit to a locked agent. The caller saves the deposit."""
    deposit.movement = move_balance(
        agent, kind=MovementKind.FUNDING, amount=deposit.amount, by=by, reason=deposit.tx, chain=deposit.chain
    )
    deposit.agent, deposit.state, deposit.credited_at = agent, DepositState.CREDITED, utc_now()


def _other_asset(agent: Agent, asset: str | None) -> str:
    deposited = asset or "a token that is not served"
    return f"The allowance of {agent.id} is in {agent.asset}, the deposit is in {deposited}."
