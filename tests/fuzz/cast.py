"""Who is there to be found by chance: agents, services and keys with the names that `schemathesis.toml` knows."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial

from django.db import connection
from redis import Redis

from foundation.environment.process_types import ProcessType
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from ledger.operations import fund_agent
from policy.models import Agent
from policy.operations import pause_agent, set_policy
from services.models import Service, ServiceStatus
from services.operations import Registration, approve_service, disable_service, register_service
from tests.support.factories import make_agent_of_old, make_api_key
from tests.support.heartbeats import hearts_that_beat, make_heartbeat
from tests.support.local_chain import Localnet
from tests.support.localnets import EVM, LOCALNETS, SOLANA

_RICH = "1000000"
# Name: asset, most for one payment, limit of a day, balance.
_AGENTS = {
    "fuzz-agent": (Asset.USDC, "10", _RICH, _RICH),
    "fuzz-agent/on-solana": (Asset.SOL, "10", _RICH, _RICH),
    "fuzz-agent-at-its-limit": (Asset.USDC, "10", "0.5", _RICH),
    "fuzz-agent-without-money": (Asset.USDC, "10", _RICH, "0.5"),
    "fuzz-agent-paused": (Asset.USDC, "10", _RICH, _RICH),
}
_SERVICES: dict[str, tuple[Asset, Localnet]] = {
    "fuzz-payee": (Asset.USDC, EVM),
    "fuzz-payee-on-solana": (Asset.SOL, SOLANA),
    "fuzz-payee-disabled": (Asset.USDC, EVM),
}
_SCOPES = ["payments", "budgets", "services", "logs"]


@dataclass(frozen=True, slots=True)
class Cast:
    """Keys: for everything, for one scope each, and by agent, for everything that is the agent's."""

    key: str
    scoped: dict[str, str]
    bound: dict[str, str]


def make_cast() -> Cast:
    """Make everybody, once for a database."""
    for name, (asset, most, daily, balance) in _AGENTS.items():
        make_agent_of_old(name, asset=asset)  # with a slash in its id, as agents were made once
        limits = {"max_per_payment": Decimal(most), "daily_limit": Decimal(daily), "weekly_limit": Decimal(_RICH)}
        set_policy(name, change=partial(replace, **limits), by="test")
        fund_agent(name, amount=Decimal(balance), by="test")
    pause_agent("fuzz-agent-paused", by="ann")
    for name, (asset, localnet) in _SERVICES.items():
        address = localnet.new_address()
        if localnet is SOLANA:  # an account that would hold less than its rent is not paid
            SOLANA.rpc("requestAirdrop", address, 10**9)
        recipient = f"{localnet.alias}:{address}"
        register_service(Registration(id=name, name="A payee", recipient=recipient, asset=asset, webhook_url=None))
        approve_service(name, by="test")
    disable_service("fuzz-payee-disabled", by="test")
    return Cast(
        key=make_api_key(),
        scoped={scope: make_api_key(scopes=[scope]) for scope in _SCOPES},
        bound={name: make_api_key(agent=Agent.objects.get(pk=name), scopes=_SCOPES) for name in list(_AGENTS)[:2]},
    )


@contextmanager
def settling() -> Iterator[None]:
    """Do what the worker does meanwhile, so that payments are sent and settle, and chain state stays fresh."""
    done = threading.Event()

    def settle(redis: Redis) -> None:
        while not done.wait(0.5):
            for process in (ProcessType.WORKER, ProcessType.BEAT):
                make_heartbeat(redis, process)
            for localnet in LOCALNETS:
                localnet.observe()
                localnet.send()
                localnet.follow()
                localnet.mine()
            _approve_pending()
        for localnet in LOCALNETS:  # the next tests begin with nothing under way
            localnet.drain()
        connection.close()

    with hearts_that_beat() as redis:
        thread = threading.Thread(target=settle, args=(redis,))
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def _approve_pending() -> None:
    """Do what an operator does who trusts everybody, so that services which were just registered are paid."""
    for service in Service.objects.filter(status=ServiceStatus.PENDING_APPROVAL, recipient__startswith=EVM.alias):
        with suppress(OperationRefused):
            approve_service(service.id, by="test")
