"""The alarm clock of settlement.

Each task may run twice, late or not at all: rows are the queue, and beat rings again.
"""

import logging
from collections.abc import Callable
from typing import Any

from celery import current_app, shared_task

from allowance.kernel.repeated_logs import log_once_a_minute
from chains.port import ChainAdapter, ChainUnavailable
from ledger.clocks import clocks_agree, read_clocks
from payments.reconciling import escrow_history, reconciliation, watcher
from payments.served_chains import served_chains
from payments.settling import gas_costs, settlement, unpaid
from payments.settling.leases import hold

log = logging.getLogger(__name__)

# A ring that nobody heard by then is not kept: the next one says the same.
_EXPIRES_S = 5
# The chains whose history this process has compared with the ledger.
_searched_here: set[str] = set()


@shared_task(ignore_result=True)
def on_every_chain(task: str) -> None:
    """Ring a task for every chain by itself: one that is away does not keep the others waiting."""
    for chain in served_chains():
        current_app.send_task(task, (chain,), expires=_EXPIRES_S)


@shared_task(ignore_result=True)
def broadcast_payments(chain: str) -> None:
    """Send what was just approved on a chain."""
    _take_turns(settlement.broadcast, chain)


@shared_task(ignore_result=True)
def sweep_payments(chain: str) -> None:
    """Follow what was sent, see to what is unpaid, and send what was missed or has room in its line now."""
    _take_turns(settlement.confirm, chain)
    _take_turns(unpaid.resolve_unpaid, chain)
    _take_turns(settlement.broadcast, chain)
    _take_turns(gas_costs.read_costs, chain)


@shared_task(ignore_result=True)
def observe_chain(chain: str) -> None:
    """Refresh what the money path knows of a chain, and see to its relayers."""
    if chain not in _searched_here:
        # However fresh all seems to be: the database may have been set back just now.
        if not _take_turns(escrow_history.search_history, chain):
            return
        _searched_here.add(chain)
    _take_turns(watcher.observe, chain)


@shared_task(ignore_result=True)
def watch_deposits(chain: str) -> None:
    """Follow what came into the escrow of a chain, and what left it."""
    _take_turns(escrow_history.search_history, chain)


@shared_task(ignore_result=True)
def reconcile_chain(chain: str) -> None:
    """Compare what the escrow of a chain holds with what the ledger says."""
    _take_turns(reconciliation.reconcile, chain)


@shared_task(ignore_result=True)
def check_books() -> None:
    """Compare the agents' balances with what came in and what was spent."""
    reconciliation.check_books()


def _take_turns(step: Callable[[str, ChainAdapter], Any], chain: str) -> bool:
    """Take one step on one chain, unless another worker is taking it; returns whether it was taken here."""
    if not clocks_agree(read_clocks()):
        return False  # what it would write down, others would believe
    with hold(f"{step.__name__} {chain}") as is_ours:
        if is_ours:
            try:
                step(chain, served_chains()[chain])
            except ChainUnavailable as error:
                log_once_a_minute(
                    log,
                    logging.WARNING,
                    "%s on %s will be tried again: %s",
                    step.__name__,
                    chain,
                    error,
                    about=(step.__name__, chain),
                )
            else:
                return True
    return False
