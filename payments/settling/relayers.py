"""Keep the relayers of each chain: which accounts may submit payments, and in what state they are.

Source: docs/architecture.md.
"""

import logging
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from chains.port import ChainAdapter, RelayerState
from foundation.groups import in_each_group, numbers_here, read_reachable
from foundation.kernel.errors import OperationRefused
from foundation.kernel.repeated_logs import log_once_a_minute
from payments.lifecycle import SettlementState
from payments.models import Relayer, Settlement
from payments.settling.broadcasting import UNCONFIRMED_STATES
from payments.settling.nonces import catch_up_nonces, fill_open_nonces, find_to_repair, is_plausible
from payments.settling.relayer_balances import find_open_costs, record_relayer_state
from payments.settling.state_changes import StateChange
from payments.settling.transaction_rows import read_rows
from payments.settling.transitions import change_states
from staff.audit import record

log = logging.getLogger(__name__)


def refresh_relayers(chain: str, adapter: ChainAdapter, state: Mapping[str, Any]) -> None:
    """Register and observe the relayers of a chain, and repair their nonces; `state` is the chain's newest state.

    Raises:
        ChainUnavailable: no node answered.
    """
    relayers = list(Relayer.objects.filter(chain=chain))
    known = {relayer.address for relayer in relayers}
    new = {number: address for number, address in configured_relayers(adapter).items() if address not in known}
    # Read before nodes are asked: a transaction that ends meanwhile may not be in their answer yet.
    open_before = find_open_costs(chain) if adapter.nonces is None else {}
    states = adapter.observer.observe_relayers([*(relayer.address for relayer in relayers), *new.values()])
    for number, address in new.items():
        _register(chain, number, address, states[address])
    observed = list(Relayer.objects.filter(chain=chain, address__in=states))
    for relayer in observed:
        record_relayer_state(relayer, states[relayer.address], open_before, has_key=has_key_of(relayer, adapter))
    nonces = {one.pk: seen for one in observed if (seen := states[one.address].nonces) is not None}
    to_repair = set(find_to_repair(nonces)) if nonces else set()
    for relayer in observed:
        if relayer.pk in to_repair:
            catch_up_nonces(relayer, nonces[relayer.pk])
        if not has_key_of(relayer, adapter):
            _abandon_cleanups(relayer)
        elif relayer.pk in to_repair and adapter.nonces is not None:
            fill_open_nonces(relayer, nonces[relayer.pk], adapter.nonces, state)


def switch_relayer(chain: str, address: str, *, is_enabled: bool, by: str, reason: str = "") -> Relayer:
    """Put a relayer in or out of rotation; the payments that it has are followed to their end all the same.

    Raises:
        OperationRefused: the chain has no such relayer.
    """
    action = "relayer.enabled" if is_enabled else "relayer.disabled"
    found: list[Relayer] = []
    changed: list[Relayer] = []

    def switch() -> None:
        with transaction.atomic():
            relayers = Relayer.objects.select_for_update(no_key=True)
            relayer = relayers.filter(chain=chain, address__iexact=address).first()
            if relayer is None:
                return
            if relayer.is_enabled != is_enabled:
                relayer.is_enabled = is_enabled
                relayer.save(update_fields=["is_enabled"])
                if not changed:
                    record(action, subject_type="relayer", subject=f"{chain}:{relayer.address}", by=by, reason=reason)
                changed.append(relayer)
        found.append(relayer)

    in_each_group(switch)  # one without nonces is of all of them
    if not found:
        raise OperationRefused(f"{chain} has no relayer {address}.")
    return found[0]


def find_rotation(chain: str, adapter: ChainAdapter) -> list[str]:
    """List the relayers that submit on a chain, by address: configured or registered, and not disabled here.

    Whoever disables a relayer on the escrow disables it here first.
    """
    registered = read_reachable(lambda: Relayer.objects.filter(chain=chain).order_by("number"))
    # By address: relayers of an earlier seed have numbers, too, and their keys are gone.
    is_enabled = {relayer.address: relayer.is_enabled for relayer in registered}
    ours = [relayer.address for relayer in registered if has_key_of(relayer, adapter)]
    configured = configured_relayers(adapter).values()
    return [address for address in dict.fromkeys([*configured, *ours]) if is_enabled.get(address, True)]


def has_key_of(relayer: Relayer, adapter: ChainAdapter) -> bool:
    """Tell whether we have a relayer's key: it may have been registered with another seed."""
    return relayer.address == adapter.preparer.relayer_address(relayer.number)


def configured_relayers(adapter: ChainAdapter) -> dict[int, str]:
    """Derive the relayers that a chain is to have, by number, each group its own; the watcher registers them."""
    wanted: int = settings.RELAYERS_PER_CHAIN
    preparer = adapter.preparer
    most = preparer.most_relayers
    # Those without nonces are the same for all groups.
    numbers = numbers_here(wanted) if most is None else range(min(wanted, most))
    return {number: preparer.relayer_address(number) for number in numbers}


def _register(chain: str, number: int, address: str, state: RelayerState) -> None:
    """Register a new relayer, beginning at the nonce that the chain has for its account."""
    nonces = state.nonces
    if nonces is not None and not is_plausible(nonces):
        log_once_a_minute(
            log,
            logging.ERROR,
            "%s %s: its account is said to be at nonce %s, which is not believed",
            chain,
            address,
            nonces.mined,
            about=address,
        )
        return
    defaults = {"number": number, "next_nonce": None if nonces is None else nonces.mined}
    Relayer.objects.get_or_create(chain=chain, address=address, defaults=defaults)


def _abandon_cleanups(relayer: Relayer) -> None:
    """Stop following the fillers and voids of a relayer whose key is gone.

    A transaction that pays has a deadline, which ends it. A filler or a void has none: behind a nonce that nobody can
    fill any more it would wait for ever. Another relayer voids what is still to be voided; should both be included, the
    escrow accepts the first one.
    """
    is_cleanup = Q(first_payment=None) | Q(is_void=True)
    rows = read_rows(Settlement.objects.filter(is_cleanup, relayer=relayer, state__in=UNCONFIRMED_STATES))
    change_states([StateChange(row, SettlementState.REPLACED, "The key of its relayer is gone.") for row in rows])
