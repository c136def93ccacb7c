"""The alarm clock of settlement.

Each task may run twice, late or not at all: rows are the queue, and beat rings again.
"""

import logging
from collections.abc import Callable
from typing import Any

from celery import shared_task

from payments import settlement
from payments.chains.base import ChainAdapter, ChainUnavailable
from payments.chains.registry import served_chains

log = logging.getLogger(__name__)


@shared_task(ignore_result=True)
def broadcast_payments(chain: str) -> None:
    """Send what was just approved on a chain."""
    _on_chain(settlement.broadcast, chain)


@shared_task(ignore_result=True)
def sweep_payments() -> None:
    """Send what was missed and follow what was sent, on every chain."""
    for chain in served_chains():
        _on_chain(settlement.broadcast, chain)
        _on_chain(settlement.confirm, chain)


@shared_task(ignore_result=True)
def observe_chains() -> None:
    """Refresh what the money path knows of every chain."""
    for chain in served_chains():
        _on_chain(settlement.observe, chain)


def _on_chain(step: Callable[[str, ChainAdapter], Any], chain: str) -> None:
    """Take one step on one chain; a chain that is away does not keep the others waiting."""
    try:
        step(chain, served_chains()[chain])
    except ChainUnavailable as error:
        log.warning("%s on %s will be tried again: %s", step.__name__, chain, error)
