"""The stage of the tests of settlement: fake chains of either kind, and the embedded ones."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime

import pytest

from foundation.kernel.assets import Asset
from payments.deciding.operations import request_payment
from payments.environment import payment_environment
from payments.models import Payment, Relayer
from policy.models import Agent
from tests.support.closing_payee import Payee
from tests.support.factories import make_agent, seen_by
from tests.support.fake_nodes import Node, open_nodes
from tests.support.fake_solana_nodes import Truth
from tests.support.invariants import check_agent, check_nonces
from tests.support.local_chain import Localnet
from tests.support.localnets import LOCALNETS, SOLANA
from tests.support.payment_requests import make_request
from tests.support.scenes import Scene

PayOnChain = Callable[..., Payment]
# More than any escrow of tests has.
LIMIT = "100000000"


@pytest.fixture(params=[True, False], ids=["nonces", "no nonces"])
def has_nonces(request: pytest.FixtureRequest) -> bool:
    """Tell of which kind the chain is: whether its accounts have nonces, as the EVM's, or not, as Solana's."""
    return bool(request.param)


@pytest.fixture
def scene(db: None, has_nonces: bool) -> Scene:
    """An agent, a payee and a chain with one relayer, of either kind; rolled back."""
    return Scene(has_nonces=has_nonces)


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    """Two nodes of a Solana chain that say what they are told to."""
    with open_nodes(2) as made:
        yield made


@pytest.fixture
def node(nodes: list[Node]) -> Node:
    """The first of the nodes."""
    return nodes[0]


@pytest.fixture
def truth() -> Truth:
    """What an honest node of a Solana chain says."""
    return Truth()


@pytest.fixture(params=LOCALNETS, ids=lambda one: one.alias)
def localnet(request: pytest.FixtureRequest) -> Localnet:
    """One embedded chain after the other."""
    found: Localnet = request.param
    return found


@pytest.fixture
def real(committed: None, localnet: Localnet) -> Iterator[PayOnChain]:
    """Have payments approved on an embedded chain on which nothing else is under way; one relayer takes them all."""
    localnet.drain()
    localnet.observe()
    others = Relayer.objects.filter(chain=localnet.caip2, number__gt=0, is_enabled=True)
    idle = list(others.values_list("pk", flat=True))
    others.update(is_enabled=False)
    agents: dict[Asset, Agent] = {}

    def pay(amount: str = "1.00", now: datetime | None = None, asset: Asset = Asset.USDC) -> Payment:
        agent = agents[asset] = agents.get(asset) or make_agent(
            asset=asset, max_per_payment=LIMIT, daily_limit=LIMIT, weekly_limit=LIMIT, balance=LIMIT
        )
        environment = replace(payment_environment(), wake=lambda _: None, now=now)
        with seen_by(now, localnet.caip2):
            entry = request_payment(make_request(agent, localnet.make_service(asset), amount), environment).entry
        return Payment.objects.get(pk=entry.payment_id)

    yield pay
    Relayer.objects.filter(pk__in=idle).update(is_enabled=True)
    check_nonces(localnet.caip2)
    for agent in agents.values():
        check_agent(agent.id)


@pytest.fixture(params=[Asset.USDC, Asset.PYUSD])
def payee(committed: None, request: pytest.FixtureRequest) -> Iterator[Payee]:
    """A payee on the embedded Solana chain, of one token after the other, that opens and closes its account."""
    SOLANA.drain()
    payee = Payee(request.param)
    yield payee
    # Nothing that cannot be paid is left to others.
    payee.open()
    SOLANA.drain()
