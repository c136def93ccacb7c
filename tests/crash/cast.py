"""Who takes part in a run: agents and payees, the product's processes, lying nodes, whoever deposits, a thief."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from chains.catalogue import find_chain
from foundation.environment.keys import held_key
from foundation.kernel.assets import Asset
from payments.models import ChainState
from policy.key_operations import create_api_key
from policy.limits import Limits, under
from policy.models import Agent as AgentRow
from policy.operations import create_agent, switch_signer
from tests.crash.clients import Agent, Clients
from tests.crash.depositor import Depositor, Wallet
from tests.crash.evm_localnet import EvmLocalnet
from tests.crash.evm_wallet import EvmWallet
from tests.crash.installation import Installation, wait_until
from tests.crash.localnets import Localnet
from tests.crash.processes import WEBS, CrashHouse
from tests.crash.proxy import Proxy
from tests.crash.rules import Request
from tests.crash.solana_localnet import SEND, SolanaLocalnet
from tests.crash.solana_wallet import SolanaWallet
from tests.crash.thief_process import Thief
from tests.crash.world import Network, World
from tests.services.webhooks.receivers import Receiver
from tests.support.factories import make_service

_FUNDS = 5_000
# Whoever made a chain's tokens can deposit them.
_WALLETS: Mapping[str, Callable[[Any, str], Wallet]] = {
    EvmLocalnet.alias: EvmWallet,
    SolanaLocalnet.alias: SolanaWallet,
}


def make_localnets() -> Sequence[Localnet]:
    """List the chains of a run."""
    return EvmLocalnet(), SolanaLocalnet()


@contextmanager
def make_world(seed: int, folder: Path, localnets: Sequence[Localnet], payees: Receiver) -> Iterator[World]:
    """Bring everything up, with money in the agents' allowances, and end it all behind the block.

    `payees` receives what any of them is told.
    """
    installation = Installation({localnet.alias: localnet.server for localnet in localnets})
    switch_signer(is_signing=True, by="crash test")
    networks = {
        localnet.alias: _make_network(localnet, installation, payees.url(), seed * 10 + number)
        for number, localnet in enumerate(localnets)
    }
    agents = [agent for network in networks.values() for agent in network.agents]
    _, api_key = create_api_key(by="test")
    with CrashHouse(folder / "logs", _proxies(networks)) as house:
        thief = _start_thief(installation, networks[SolanaLocalnet.alias], folder, seed)
        clients = Clients(agents, [house.url(web) for web in WEBS], api_key, seed)
        try:
            for network in networks.values():
                _fund(network)
            house.wait_for_webs()
            wait_until(lambda: _are_ready(networks, agents), "the first deposits are credited, and the chains observed")
            clients.start()
            yield World(installation, house, clients, networks, payees, thief, random.Random(seed))
        finally:
            thief.end()
            clients.abandon()
            for network in networks.values():
                network.depositor.abandon()


def _start_thief(installation: Installation, solana: Network, folder: Path, seed: int) -> Thief:
    """Start it beside the product. On Solana nothing waits in public: the nodes show it what they are sent."""
    nodes = {"evm": installation.url(EvmLocalnet.alias), "solana": installation.url(SolanaLocalnet.alias)}
    thief = Thief.start(folder / "thief", held_key("RELAYER_SEED"), nodes, seed)

    def show(request: Request) -> None:
        for call in request.calls:
            if call["method"] == SEND:
                thief.show(solana.localnet.read_offer(call)[1])

    for proxy in solana.proxies:
        proxy.show(show)
    return thief


def _make_network(localnet: Localnet, installation: Installation, webhook_url: str, seed: int) -> Network:
    agents = [agent for asset in localnet.assets for agent in _make_agents(localnet, asset, webhook_url)]
    proxies = [Proxy(installation.url(localnet.alias), seed * 10 + number) for number in (1, 2)]
    wallet = _WALLETS[localnet.alias](localnet, installation.folder.keys()["EVM_DEPLOYER_KEY"])
    return Network(localnet, proxies, agents, Depositor(wallet, agents, seed))


def _make_agents(localnet: Localnet, asset: Asset, webhook_url: str) -> Iterator[Agent]:
    """Make two agents that can afford all they want, and one that soon cannot. The last two are under a third one."""
    services = [
        _make_service(localnet, asset, recipient, webhook_url if number % 2 == 1 else None)
        for number, recipient in enumerate(localnet.new_recipients(asset))
    ]
    plenty = Limits(Decimal(10), Decimal(100_000), Decimal(100_000))
    little = Limits(Decimal(2), Decimal(6), Decimal(8))
    prefix = f"{localnet.alias}-{asset}".lower()
    parent = create_agent(f"{prefix}-parent", asset=asset, limits=plenty, by="crash test").pk
    cast = (
        ("agent-1", plenty, (1, 300)),
        ("agent-2", under(parent, plenty), (1, 300)),
        ("small-agent", under(parent, little), (1, 250)),
    )
    for name, limits, amounts in cast:
        agent = create_agent(f"{prefix}-{name}", asset=asset, limits=limits, by="crash test")
        yield Agent(agent.id, asset, amounts, services)


def _make_service(localnet: Localnet, asset: Asset, recipient: str, webhook_url: str | None) -> str:
    return make_service(
        asset=asset,
        recipient=f"{localnet.alias}:{recipient}",
        webhook_url=webhook_url,
    ).id


def _fund(network: Network) -> None:
    for agent in network.agents:
        network.depositor.deposit(agent.id, agent.asset, _FUNDS * 10**agent.asset.decimals)
    network.depositor.start()


def _are_ready(networks: Mapping[str, Network], agents: Sequence[Agent]) -> bool:
    funded = AgentRow.objects.filter(pk__in=[agent.id for agent in agents], balance__gt=0).count()
    return funded == len(agents) and ChainState.objects.count() == len(networks)


def _proxies(networks: Mapping[str, Network]) -> dict[str, Sequence[Proxy]]:
    found = {}
    for alias, network in networks.items():
        chain = find_chain(alias)
        if chain is None:
            raise RuntimeError(f"{alias} is no chain that is known.")
        found[chain.variables] = network.proxies
    return found
