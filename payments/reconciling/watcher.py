"""The watcher keeps what the money path knows of a chain fresh, so that it need not ask a node; and the relayers."""

import logging
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from django.db import transaction

from chains.port import ChainAdapter, IncludedPayment, PayeeObserver
from foundation.groups import above_groups, copy_here, in_reachable_groups
from foundation.kernel.assets import Asset
from foundation.kernel.repeated_logs import log_once_a_minute
from foundation.kernel.times import is_fresh, utc_now
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import ChainState, Leg, PayeeState
from payments.reconciling.escrow_history import require_history
from payments.settling.chain_switch import LONG_AGO, read_chain_state
from payments.settling.relayers import find_rotation, refresh_relayers
from payments.settling.stuck_transactions import raise_stuck_fees
from policy.key_operations import bring_revocations
from policy.models import SignerSwitch
from services.models import Service, ServiceStatus

log = logging.getLogger(__name__)

# How often a chain is compared with the configuration: nodes are exchanged, and a contract's owner can change it.
CHECK_EVERY = timedelta(minutes=1)
# Far longer than the time between two observations of the payees.
RECENT = timedelta(minutes=10)


def observe(chain: str, adapter: ChainAdapter) -> None:
    """Refresh what the money path knows of a chain, its relayers and its payees.

    Raises:
        ChainUnavailable: no node answered, or the escrow's history is not known. The recorded state then grows stale,
            and nothing is paid.
    """
    before = read_chain_state(chain)
    is_checked = check_configuration(chain, adapter)
    require_history(chain, adapter)
    state = adapter.observer.observe(before.state if before else None, checks_tokens=is_checked)

    def record_state() -> None:
        ChainState.objects.update_or_create(chain=chain, defaults={"state": state, "observed_at": utc_now()})

    def tell_group() -> None:
        # Before anything is paid on it: a restored backup gives out nonces that were used.
        refresh_relayers(chain, adapter, state)
        with transaction.atomic():
            # A group that was away may not know what was stopped, or which key was revoked, meanwhile.
            bring_revocations()
            copy_here(SignerSwitch, 1)
            copy_here(ChainState, chain)
            record_state()
        raise_stuck_fees(chain, adapter, state)
        if adapter.payee_accounts is not None:
            _observe_payees(chain, adapter.payee_accounts)

    in_reachable_groups(tell_group)
    above_groups(record_state)


def _observe_payees(chain: str, accounts: PayeeObserver) -> None:
    """Refresh the state of the approved payees of a chain, where payments depend on it."""
    payees = Service.objects.filter(chain=chain, status=ServiceStatus.APPROVED).order_by("address", "asset")
    wanted = [(address, Asset(asset)) for address, asset in payees.values_list("address", "asset").distinct()]
    known = dict(PayeeState.objects.filter(chain=chain).values_list("address", "state"))
    now = utc_now()
    found = accounts.observe_payees(wanted, known, partial(_find_recent_payments, chain))
    seen = {one.address: one for one in PayeeState.objects.filter(chain=chain, address__in=found)}
    for address, one in seen.items():
        one.state, one.observed_at = found[address], now
    PayeeState.objects.bulk_update([seen[address] for address in sorted(seen)], ("state", "observed_at"))
    new = [
        PayeeState(chain=chain, address=address, state=found[address], observed_at=now)
        for address in sorted(found)
        if address not in seen
    ]
    PayeeState.objects.bulk_create(new, ignore_conflicts=True)


def _find_recent_payments(chain: str, addresses: Sequence[str]) -> list[IncludedPayment]:
    """Find the recent payments to some addresses that are in a block or settled."""
    # A payment that somebody else submitted (`payments.reconciling.outflows`) has no bytes here.
    legs = Leg.objects.filter(payment__recipient__in=addresses, is_void=False, skipped=None).exclude(
        settlement__raw=b""
    )
    paid = legs.order_by().values_list("settlement__raw", flat=True)
    # Read in this order, a payment that is settled meanwhile is found twice, not missed.
    included = list(paid.filter(settlement__state=SettlementState.INCLUDED, settlement__chain=chain))
    settled = paid.filter(
        settlement__state=SettlementState.FINAL,
        settlement__chain=chain,
        payment__status=PaymentStatus.SETTLED,
        payment__settled_at__gte=utc_now() - RECENT,
    )
    return [IncludedPayment(bytes(raw), is_final=False) for raw in included] + [
        IncludedPayment(bytes(raw), is_final=True) for raw in settled
    ]


def check_configuration(chain: str, adapter: ChainAdapter) -> bool:
    """Record whether the chain matches its configuration; while it does not, nothing is paid there.

    Returns False if it was compared less than a minute ago.
    """
    now, known = utc_now(), read_chain_state(chain)
    is_same = known is not None and known.state.get("configuration") == adapter.preparer.configuration
    if is_same and known and is_fresh(known.checked_at, now, CHECK_EVERY):
        return False
    mismatches = adapter.inspector.find_mismatches(find_rotation(chain, adapter))
    for mismatch in mismatches:
        log_once_a_minute(
            log, logging.ERROR, "%s does not match its configuration: %s", chain, mismatch, about=(chain, mismatch)
        )
    found = {"mismatch": " ".join(mismatches)[:500], "checked_at": now}
    # A chain that was not observed yet: its state is stale from the start.
    new = {**found, "state": {}, "observed_at": LONG_AGO}
    ChainState.objects.update_or_create(chain=chain, defaults=found, create_defaults=new)
    in_reachable_groups(lambda: copy_here(ChainState, chain))
    return True
