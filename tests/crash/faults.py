"""What a fault is, and the faults that every chain knows: reorganisations, nodes that are away, forget or lie."""

import random
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

from django.conf import settings

from foundation.kernel.times import utc_now
from payments.models import ChainState
from tests.crash.misbehaviour import Lie, forget, lose_request, lying
from tests.crash.proxy import Proxy
from tests.crash.rules import Dropped, Rule
from tests.crash.world import Network, World

# Each does something and says what it did.
Fault = Callable[[World], str]
ChainFault = Callable[[World, Network], str]
# So many payments are approved under a lie.
_APPROVALS = 6


def on(alias: str, fault: ChainFault) -> Fault:
    """Let a fault happen to one chain."""
    return lambda world: fault(world, world.networks[alias])


def reorganise(depth: int) -> ChainFault:
    """Replace blocks that hold payments; their transactions vanish, or wait for a block again."""

    def inject(world: World, network: Network) -> str:
        removed = world.wait_until(network.localnet.count_newest, "a block with payments is made")
        keeps = world.chance.random() < 0.5
        network.localnet.reorganise(depth, keeps_transactions=keeps)
        return f"{depth} blocks replaced; {removed} transactions or more {'waited again' if keeps else 'vanished'}"

    return inject


def all_nodes_away(world: World, network: Network) -> str:
    rule = Rule(f"{network.localnet.alias}: both nodes away", lose_request)
    wait_until_observed(world, network)
    with network.misbehaving(rule):
        world.wait_for_approvals(3, network.agents)
        world.wait_until(lambda: network.shown(rule) > 0, "somebody misses the nodes")
    return "3 payments approved meanwhile"


def wait_until_observed(world: World, network: Network) -> None:
    """Wait until what was observed of a chain is fresh: after other faults it may be stale, or about to grow so.

    Without nodes or workers, payments go on only as long as it is.
    """
    world.wait_until(lambda: _was_observed(network, timedelta(seconds=5)), "the chain is observed")


def _was_observed(network: Network, max_age: timedelta) -> bool:
    return ChainState.objects.filter(chain=network.localnet.caip2, observed_at__gte=utc_now() - max_age).exists()


def forgetful_nodes(world: World, network: Network) -> str:
    localnet = network.localnet
    rule = Rule(f"{localnet.alias}: both nodes take and forget", forget(localnet), localnet.asking.send)
    before = network.shown(rule)
    with network.misbehaving(rule):
        world.wait_until(lambda: network.shown(rule) > before + 2, "transactions are sent")
    return "what was taken meanwhile was sent again"


def lie_by_one(
    name: str,
    told: Mapping[str, Lie],
    *,
    is_first: bool = False,
    times: int = 8,
    meanwhile: Callable[[Network], Any] = lambda _: None,
) -> ChainFault:
    """Let one node lie about methods until it was heard so often, and the other be away now and then.

    Payments are approved meanwhile, until the chain's state is stale: two nodes that contradict each other about the
    escrow's history let nobody observe it. `is_first`: the one that is asked first, or alone. `meanwhile` happens once
    the lie was heard.
    """

    def inject(world: World, network: Network) -> str:
        nodes = list(network.proxies)
        max_age = timedelta(seconds=settings.CHAIN_STATE_MAX_AGE_S)
        liar, honest = nodes if is_first else world.chance.sample(nodes, k=2)
        rule = Rule(f"{network.localnet.alias}: a node lies: {name}", lying(told), tuple(told))
        before = network.shown(rule)
        wait_until_observed(world, network)
        with _truthful(honest), liar.rules(rule):
            world.wait_until(lambda: network.shown(rule) > before, f"somebody hears: {name}")
            meanwhile(network)
            world.wait_until(lambda: network.shown(rule) >= before + times, f"many hear: {name}")
            wanted = world.clients.count_approved(network.agents) + _APPROVALS
            world.wait_until(
                lambda: world.clients.count_approved(network.agents) >= wanted or not _was_observed(network, max_age),
                f"{_APPROVALS} more payments are approved, or the chain's state is stale",
            )
        return f"node {nodes.index(liar) + 1} lied"

    return inject


def _truthful(honest: Proxy) -> AbstractContextManager[None]:
    def pass_on(request: Any, forward: Any, chance: random.Random) -> Any:
        if chance.random() < 0.2:
            raise Dropped
        return forward(request)

    # In front of all other rules: nothing else happens to this node's messages.
    return honest.rules(Rule("", pass_on))
