"""Sums over all agents, on several servers: what is held covers what is promised, and nobody is credited beyond it."""

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest
from django.db import connections

from foundation import groups
from foundation.kernel.errors import OperationRefused
from payments.funding.credits import find_surplus, fund_agent
from payments.funding.expected_holdings import books, find_imbalances
from payments.funding.pools import read_pool
from payments.models import Reconciliation
from payments.reconciling.reconciliation import reconcile
from policy.models import Agent
from services.served_chains import served_chains
from tests.distributed.storming import agent_in_each_group, move_money, repeating, shots_of
from tests.support.factories import make_api_key, make_service
from tests.support.house import House
from tests.support.local_ids import LOCALNET
from tests.support.storms import strike

pytestmark = pytest.mark.long(60)
ASSET = "USDC"


@pytest.fixture
def agents() -> dict[groups.Group, Agent]:
    return agent_in_each_group(daily_limit="900", weekly_limit="900")


def compare() -> Reconciliation:
    (row,) = [row for row in reconcile(LOCALNET, served_chains()[LOCALNET]) if row.asset == ASSET]
    return row


def test_what_is_held_and_promised_is_summed_up_over_all_groups_while_agents_pay(house: House, agents):
    compare()
    before = surplus()
    service, key = make_service(), make_api_key()
    shots = [shot for agent in agents.values() for shot in shots_of(house, agent.pk, service.pk, key, 40)]

    with repeating(move_money, agents), repeating(strike, shots):
        seen = [(surplus(), imbalances()) for _ in range(12)]
        drifts = [compare().drift for _ in range(3)]

    # Whatever agents pay meanwhile, and whatever is taken out and taken back, is promised or gone: never both or none.
    assert seen == [(before, [])] * 12
    assert len(set(drifts)) == 1


def surplus() -> Decimal:
    with books():
        pool = read_pool(ASSET)
    assert pool is not None
    return pool.surplus


def imbalances() -> list[object]:
    with books():
        return list(find_imbalances())


def test_credits_by_hand_in_several_groups_at_once_are_covered_by_one_surplus(agents):
    compare()
    surplus_there = find_surplus(LOCALNET, ASSET)
    assert surplus_there is not None
    most = min(surplus_there, surplus()) - 1  # so that one fits, and no two do

    def credit(agent: Agent) -> bool:
        try:
            fund_agent(agent.pk, amount=most, by="ann", chain=LOCALNET)
        except OperationRefused:
            return False
        finally:
            connections.close_all()
        return True

    with ThreadPoolExecutor(len(agents)) as threads:
        credited = list(threads.map(credit, agents.values()))

    assert sum(credited) == 1
