"""An escrow of one's own on an embedded chain, with keys of its own, and the product on it; the keys are exchanged.

The processes that the runbooks speak of are steps here: `work` is what workers do, with the keys that are configured.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from chains.catalogue import ServedChain
from foundation.kernel.assets import Asset
from payments.deciding.operations import request_payment
from payments.environment import payment_environment
from payments.lifecycle import OPEN_STATES, PaymentStatus
from payments.models import ChainState, Payment, Relayer, Settlement
from payments.reconciling.escrow_history import search_history
from payments.reconciling.watcher import observe
from payments.settling.broadcasting import broadcast
from payments.settling.confirming import confirm
from payments.settling.relayers import find_rotation
from payments.settling.unpaid import resolve_unpaid
from policy.models import Agent
from policy.signer import local_signer
from services.models import Service
from services.served_chains import make_chain, served_chains
from tests.support.commands import run
from tests.support.local_chain import Localnet
from tests.support.payment_requests import make_request


@dataclass(frozen=True)
class Keys:
    """What is configured in the environment of a process."""

    seed: bytes = field(default_factory=lambda: os.urandom(64))
    evm: bytes = field(default_factory=lambda: os.urandom(32))
    solana: bytes = field(default_factory=lambda: os.urandom(32))


@contextmanager
def process(keys: Keys, served: ServedChain, **variables: Any) -> Iterator[None]:
    """Be a process with these keys, for as long as this lasts."""
    configured = {
        "RELAYER_SEED": keys.seed,
        "POLICY_SIGNER_SECP256K1_KEY": keys.evm,
        "POLICY_SIGNER_SOLANA_KEY": keys.solana,
        "RELAYERS_PER_CHAIN": 2,
        "CHAINS": {served.chain.caip2: served},
    }
    with override_settings(**{**configured, **variables}):
        _forget()
        try:
            yield
        finally:
            _forget()


def _forget() -> None:
    served_chains.cache_clear()
    local_signer.cache_clear()


class Stage:
    """The product on one escrow; `keys` and `served` are what its processes have."""

    def __init__(self, localnet: Localnet, keys: Keys, served: ServedChain) -> None:
        self.localnet, self.keys, self.served = localnet, keys, served
        self.caip2, self.alias = localnet.caip2, localnet.alias
        # What other tests' relayers had under way is none of ours.
        Relayer.objects.filter(chain=self.caip2).update(is_enabled=False)
        ChainState.objects.filter(chain=self.caip2).update(stopped_reason="", stopped_at=None)
        with self.running():
            adapter = served_chains()[self.caip2]
            # Nothing is known of an escrow before the block that made it is final.
            while adapter.follower.find_finality().block_number - adapter.escrow.deposits_trail < served.first_block:
                localnet.mine()

    def running(self, **variables: Any) -> Any:
        """Be one of the installation's processes."""
        return process(self.keys, self.served, **variables)

    def restart(self, keys: Keys, **changes: Any) -> None:
        """Stop all processes and start them with other keys."""
        self.keys, self.served = keys, replace(self.served, **changes)

    def look(self) -> None:
        """Let the watcher look; it compares the chain with the configuration at once."""
        with self.running():
            ChainState.objects.filter(chain=self.caip2).update(checked_at=None)
            observe(self.caip2, served_chains()[self.caip2])

    def pay(self, agent: Agent, service: Service, amount: str = "1.00", **variables: Any) -> Payment:
        with self.running(**variables):
            environment = replace(payment_environment(), wake=lambda _: None)
            entry = request_payment(make_request(agent, service, amount), environment).entry
        return Payment.objects.get(pk=entry.payment_id)

    def work(self, **variables: Any) -> None:
        """Do once what workers do all the time."""
        with self.running(**variables):
            adapter = served_chains()[self.caip2]
            observe(self.caip2, adapter)
            broadcast(self.caip2, adapter)
            if adapter.nonces is not None:
                confirm(self.caip2, adapter)
            search_history(self.caip2, adapter)
            if adapter.nonces is None:
                confirm(self.caip2, adapter)
            resolve_unpaid(self.caip2, adapter)
        self.localnet.go_on()

    def work_until_nothing_is_in_flight(self, **variables: Any) -> None:
        for _ in range(120):
            self.work(**variables)
            if not self.in_flight:
                return
        raise AssertionError("It does not come to an end.")

    @property
    def in_flight(self) -> bool:
        open_rows = Settlement.objects.filter(chain=self.caip2, state__in=OPEN_STATES)
        return open_rows.exists() or Payment.objects.filter(chain=self.caip2, status=PaymentStatus.APPROVED).exists()

    def has(self, service: Service) -> int:
        """Read what a payee has, in base units."""
        return self.localnet.balance_of(Asset(service.asset), service.address)

    def run(self, command: str, *arguments: str) -> list[str]:
        """Run a command of the runbooks in one of the installation's processes."""
        with self.running():
            lines, error = run(command, *arguments)
        assert error is None, error
        return lines

    def rotate(self, keys: Keys, environment: Mapping[str, str], *arguments: str) -> "Rotation":
        """Run `rotate_keys` in an environment that has the new keys, beside the processes that have the old ones."""
        with pytest.MonkeyPatch.context() as patch, process(keys, self.served):
            for name, value in environment.items():
                patch.setenv(name, value)
            lines, error = run("rotate_keys", self.alias, *arguments)
        return Rotation(lines, error)

    def mismatches(self) -> list[str]:
        with self.running():
            adapter = make_chain(self.caip2)
            return adapter.inspector.find_mismatches(find_rotation(self.caip2, adapter))


@dataclass(frozen=True)
class Rotation:
    """What the command printed, and how it failed, if it did."""

    lines: list[str]
    error: Any

    @property
    def result(self) -> dict[str, Any]:
        assert self.error is None, self.error
        found: dict[str, Any] = json.loads(self.lines[-1])
        return found

    @property
    def variables(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.lines[:-1] if line.startswith("CHAIN_"))


def status(payment: Payment) -> str:
    return str(Payment.objects.get(pk=payment.pk).status)


def served_as(localnet: Localnet, **changes: Any) -> ServedChain:
    """Configure a chain as it is, but for some changes."""
    return replace(settings.CHAINS[localnet.caip2], **changes)
