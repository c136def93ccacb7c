"""Who takes part in a run: agents and payees, the product's processes, nodes that can lie, whoever deposits."""

import random
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from pathlib import Path

from allowance.kernel.assets import Asset
from payments.models import Deposit
from policy.models import Agent as AgentRow
from policy.operations import Limits, create_agent, create_api_key, switch_signer
from tests.crash.clients import Agent, Clients
from tests.crash.depositor import Depositor
from tests.crash.installation import Installation, wait_until
from tests.crash.processes import WEBS, Processes
from tests.crash.proxy import Proxy
from tests.crash.world import World
from tests.factories import make_service

_UNITS = 10**6


@contextmanager
def make_world(seed: int, folder: Path) -> Iterator[World]:
    """Bring everything up, with money in the agents' allowances, and end it all behind the block."""
    installation = Installation()
    switch_signer(is_signing=True, by="crash test")
    agents = _make_agents()
    _, api_key = create_api_key()
    proxies = [Proxy(installation.node_url, seed * 10 + number) for number in (1, 2)]
    processes = Processes.start_all(folder / "logs", _ports(), proxies)
    clients = Clients(agents, [processes.url(web) for web in WEBS], api_key, seed)
    depositor = Depositor(installation)
    try:
        for agent in agents:
            depositor.deposit(agent.id, 1_000 * _UNITS)
        depositor.start([agent.id for agent in agents], seed)
        processes.wait_for_webs()
        wait_until(lambda: _are_funded(agents), "the first deposits are credited")
        clients.start()
        yield World(installation, proxies, processes, clients, depositor, agents, random.Random(seed))
    finally:
        clients.abandon()
        depositor.abandon()
        processes.stop_all()


def _make_agents() -> Sequence[Agent]:
    """Make agents that can afford all they want, and some that soon cannot."""
    services = [
        make_service(webhook_url="https://payee.example/hook" if number % 2 else None).id for number in range(4)
    ]
    plenty = Limits(Decimal(10), Decimal(100_000), Decimal(100_000))
    little = Limits(Decimal(2), Decimal(6), Decimal(8))
    cast = [(f"agent-{number}", plenty, (1, 300)) for number in range(4)]
    cast += [(f"small-agent-{number}", little, (1, 250)) for number in range(2)]
    for name, limits, _ in cast:
        create_agent(name, asset=Asset.USDC, limits=limits, by="crash test")
    return [Agent(name, amounts, services) for name, _, amounts in cast]


def _are_funded(agents: Sequence[Agent]) -> bool:
    funded = AgentRow.objects.filter(pk__in=[agent.id for agent in agents], balance__gt=0).count()
    return funded == len(agents) and Deposit.objects.exists()


def _ports() -> dict[str, int]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in WEBS]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return {web: probe.getsockname()[1] for web, probe in zip(WEBS, probes, strict=True)}
