"""Stop and start signing on one chain; for the policy signer as a whole see `policy.operations.switch_signer`."""

import logging
from datetime import UTC, datetime

from django.db import transaction

from chains.catalogue import alias_of
from foundation.database import SIGNER_LOCK, lock_name
from foundation.groups import outside_groups, tell_groups
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from payments.models import ChainState
from staff.audit import record

log = logging.getLogger(__name__)

MAX_REASON_LENGTH = 500
LONG_AGO = datetime.fromtimestamp(0, UTC)


def read_chain_state(chain: str) -> ChainState | None:
    """Read the state of a chain as the watcher has seen it; None: it was never observed."""
    with outside_groups():
        return ChainState.objects.filter(pk=chain).first()


def stop_signing_on(chain: str, *, by: str, reason: str) -> ChainState:
    """Approve no payment on a chain until a person starts it again. Holds in every process once this is committed.

    Payments that were signed before are settled all the same; one that expires meanwhile is not signed again. A chain
    that is stopped already keeps its first reason.

    Raises:
        OperationRefused: there is no reason.
    """
    if not 1 <= len(reason.strip()) <= MAX_REASON_LENGTH:
        raise OperationRefused(f"Give a reason of 1 to {MAX_REASON_LENGTH} characters.")
    with outside_groups(), transaction.atomic():
        # No payment that read the chain as open is under way once this is held; see deciding/sql/lock_and_read.sql.
        lock_name(SIGNER_LOCK)
        # A chain that was never observed is stopped, too; its state is stale from the start.
        ChainState.objects.get_or_create(chain=chain, defaults={"state": {}, "observed_at": LONG_AGO})
        state = _lock_state(chain)
        if not state.stopped_reason:
            state.stopped_reason, state.stopped_at = reason, utc_now()
            state.save(update_fields=["stopped_reason", "stopped_at"])
            log.critical("Signing is stopped on %s: %s", chain, reason)
            record("chain.stopped", subject_type="chain", subject=chain, by=by, reason=reason)
        tell_groups(ChainState, chain, lock=SIGNER_LOCK)
    return state


def start_signing_on(chain: str, *, by: str, reason: str = "", stopped_at: datetime | None = None) -> ChainState:
    """Approve payments on a chain again. Starting twice changes nothing.

    `stopped_at`: when the stop began that the author has seen. If it is given, no other stop is ended.

    Raises:
        OperationRefused: the watcher has never seen the chain, or another stop.
    """
    with outside_groups(), transaction.atomic():
        state = _lock_state(chain)
        if stopped_at is not None and state.stopped_at != stopped_at:
            raise OperationRefused(f"Signing on {alias_of(chain)} was started or stopped meanwhile. Look at it again.")
        if state.stopped_reason:
            log.warning("Signing on %s is started again; it was stopped: %s", chain, state.stopped_reason)
            before = {"stoppedReason": state.stopped_reason, "stoppedAt": state.stopped_at}
            record("chain.started", subject_type="chain", subject=chain, by=by, reason=reason, before=before)
        state.stopped_reason, state.stopped_at = "", None
        state.save(update_fields=["stopped_reason", "stopped_at"])
        tell_groups(ChainState, chain, lock=SIGNER_LOCK)
    return state


def _lock_state(chain: str) -> ChainState:
    state = ChainState.objects.select_for_update(no_key=True).filter(pk=chain).first()
    if state is None:
        raise OperationRefused(f"The chain {chain} was never observed, so nothing is signed on it.")
    return state
