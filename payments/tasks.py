"""The Celery tasks that drive settlement, funding and reconciliation.

Each task may run twice, late or not at all: rows are the queue, and beat sends every task again. Whoever writes to
Redis can send them, too: what a task is told says which work is looked for, never what is decided.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from celery import current_app, shared_task
from django.db import OperationalError

from chains.port import ChainAdapter, ChainUnavailable
from foundation.groups import WHOLE, Group, GroupAway, every_group, in_reachable_groups, within
from foundation.kernel.repeated_logs import log_once_a_minute
from foundation.telemetry.context import working_on
from ledger.clocks import clocks_agree, read_clocks
from payments.environment import payment_environment
from payments.holding.finishing import finish_holds
from payments.holding.proposals import end_requests
from payments.reconciling.contradictions import record_contradictions
from payments.reconciling.escrow_history import search_history
from payments.reconciling.reconciliation import check_balances, reconcile
from payments.reconciling.watcher import check_configuration, observe
from payments.settling.broadcasting import broadcast
from payments.settling.confirming import confirm
from payments.settling.expired_authorizations import give_back_expired
from payments.settling.leases import hold
from payments.settling.open_work import find_open_work
from payments.settling.transaction_costs import read_costs
from payments.settling.unpaid import resolve_unpaid
from services.served_chains import served_chains

log = logging.getLogger(__name__)

# A task that no worker has taken by then is dropped: beat has sent the same one again.
_EXPIRES_S = 5
# The chains whose history this process has compared with the ledger.
_searched_here: set[str] = set()
# So long after another worker has begun a search, which is sent at the same time, it has ended.
_SEARCH_AGAIN_S = 0.5


@shared_task(ignore_result=True)
def on_every_chain(task: str) -> None:
    """Send a task for each chain separately: a chain that does not answer does not delay the others.

    Settling is a task of each group, too: one whose node is away does not delay the others either.
    """
    if task not in {one.name for one in (sweep_payments, observe_chain, watch_deposits, reconcile_chain)}:
        raise ValueError("This is no task of a chain.")
    groups = every_group() if task == sweep_payments.name else (WHOLE,)
    for chain in served_chains():
        for group in groups:
            of_group = () if group.number is None else (group.number,)
            current_app.send_task(task, (chain, *of_group), expires=_EXPIRES_S)


@shared_task(ignore_result=True)
def broadcast_payments(chain: str, group: int | None = None) -> None:
    """Send what was just approved on a chain, in a group."""
    with _left_out_if_away(of_group := _find_group(group)):
        _run_step(broadcast, chain, of_group)


@shared_task(ignore_result=True)
def sweep_payments(chain: str, group: int | None = None) -> None:
    """Confirm what was sent, resolve what is unpaid, and send what was missed or fits in a relayer's queue now."""
    _find(chain)
    with _left_out_if_away(of_group := _find_group(group)):
        with within(of_group):
            work = find_open_work(chain)
        if work.is_open or work.is_unpaid:
            for step in (confirm, resolve_unpaid, give_back_expired, broadcast):
                _run_step(step, chain, of_group)
        if work.is_open or work.is_without_cost:
            _run_step(read_costs, chain, of_group)


@shared_task(ignore_result=True)
def observe_chain(chain: str) -> None:
    """Refresh what the money path knows of a chain, and its relayers."""
    if chain not in _searched_here:
        # However fresh the database's own record is: a backup may have been restored just now.
        if not _run_step(search_history, chain) and not _search_later(chain):
            # An escrow that is not ours is not searched: say so where people and the money path look.
            _run_step(check_configuration, chain)
            return
        _searched_here.add(chain)
    _run_step(observe, chain)


def _search_later(chain: str) -> bool:
    time.sleep(_SEARCH_AGAIN_S)
    return _run_step(search_history, chain)


@shared_task(ignore_result=True)
def watch_deposits(chain: str) -> None:
    """Follow what entered and left the escrow of a chain."""
    _run_step(search_history, chain)


@shared_task(ignore_result=True)
def reconcile_chain(chain: str) -> None:
    """Compare what the escrow of a chain holds with what the ledger says."""
    with _left_out_if_away(WHOLE):
        _run_step(reconcile, chain)


@shared_task(ignore_result=True)
def check_books() -> None:
    """Compare the agents' balances with what came in and what was spent."""
    with _left_out_if_away(WHOLE):
        check_balances()


@shared_task(ignore_result=True)
def end_holds() -> None:
    """Decide what waits for nobody's approval any more, and ask no second person for it any longer."""
    if clocks_agree(read_clocks()):
        with hold("end_holds") as is_ours:
            if is_ours:
                in_reachable_groups(lambda: finish_holds(payment_environment()))
                end_requests()


def _run_step(step: Callable[[str, ChainAdapter], Any], chain: str, group: Group = WHOLE) -> bool:
    """Run one step on one chain, unless another worker is running it; returns whether it ran here to its end.

    Within a group, it is about this group's payments.
    """
    with working_on(chain=chain):
        adapter = _find(chain)
        if not clocks_agree(read_clocks()):
            return False  # a wrong clock would date what other processes rely on
        name = " ".join(filter(None, (step.__name__, chain, str(group))))
        with hold(name) as is_ours, within(group):
            if not is_ours or (group != WHOLE and not clocks_agree(read_clocks())):
                return False
            try:
                step(chain, adapter)
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
                return False
            finally:
                record_contradictions(chain, adapter)
            return True


@contextmanager
def _left_out_if_away(group: Group) -> Iterator[None]:
    """Leave what cannot be done while a node is away: the next sweep finds what there is to do."""
    try:
        yield
    except OperationalError as error:
        if group == WHOLE and not isinstance(error, GroupAway):
            raise
        what = group if group != WHOLE else "What is about all groups"
        log_once_a_minute(log, logging.ERROR, "%s is left out: %s", what, error, about=group)


def _find_group(number: int | None) -> Group:
    """Find a group whose number came from the broker.

    Raises:
        ValueError: there is none of this number; it is not told.
    """
    group = Group(number)
    if group not in every_group():
        raise ValueError("There is no such group.")
    return group


def _find(chain: str) -> ChainAdapter:
    """Find the adapter of a chain, before anything is written about it.

    Raises:
        ValueError: it is not served; its name came from the broker, and is not told.
    """
    adapter = served_chains().get(chain)
    if adapter is None:
        raise ValueError("This chain is not served.")
    return adapter
