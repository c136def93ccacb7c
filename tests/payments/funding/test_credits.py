"""A credit that is no deposit is covered by what an escrow holds and nobody was promised, or it is refused."""

from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from ledger.models import BalanceMovement
from payments.funding.credits import adjust_balance, find_largest_surplus, find_surplus, fund_agent
from payments.models import Reconciliation
from policy.models import Agent
from tests.support.factories import make_agent, new_name
from tests.support.fake_chain import make_fake_chain
from tests.support.local_ids import LOCALNET
from tests.support.reconciliations import EscrowScene, level, make_comparison, served
from tests.support.scenes import at_once

WHY: dict[str, Any] = {"by": "fiona", "reason": "Ticket 7"}


@pytest.fixture
def scene(db: None, settings: Any) -> EscrowScene:
    """1000 USDC of one customer on a served chain, and 20 that belong to nobody."""
    scene = EscrowScene(holds="1020")
    make_comparison(scene.chain.name, holds=Decimal(1020), block_number=scene.block, drift="20")
    level(settings, scene.chain.name, surplus="20")
    return scene


def balance(agent: Agent) -> Any:
    return Agent.objects.get(pk=agent.pk).balance


@pytest.mark.parametrize("credit", [fund_agent, adjust_balance])
def test_an_adjustment_is_not_paid_out_of_other_customers_money(scene, credit):
    customer = make_agent(balance="0")

    with pytest.raises(OperationRefused, match=r"^1000\.00 USDC are not covered: .* is 20\.00\.$"):
        credit(customer.id, amount=Decimal(1000), chain=scene.chain.name, **WHY)

    assert balance(customer) == 0
    assert not BalanceMovement.objects.filter(agent=customer).exists()


@pytest.mark.parametrize("credit", [fund_agent, adjust_balance])
@pytest.mark.parametrize(("amount", "is_covered"), [("19.999999", True), ("20", True), ("20.000001", False)])
def test_a_credit_is_covered_up_to_the_surplus(scene, credit, amount, is_covered):
    if is_covered:
        credit(scene.agent.id, amount=Decimal(amount), chain=scene.chain.name, **WHY)
        scene.next_block()
        assert scene.reconcile().drift == 20 - Decimal(amount)
    else:
        with pytest.raises(OperationRefused, match="not covered"):
            credit(scene.agent.id, amount=Decimal(amount), chain=scene.chain.name, **WHY)
    assert scene.state.stopped_reason == ""


def test_a_surplus_is_used_once(scene):
    fund_agent(scene.agent.id, amount=Decimal(15), chain=scene.chain.name, **WHY)

    with pytest.raises(OperationRefused, match=r"is 5\.00\."):
        fund_agent(scene.agent.id, amount=Decimal(15), chain=scene.chain.name, **WHY)


def test_what_is_taken_from_a_balance_is_surplus(scene):
    adjust_balance(scene.agent.id, amount=Decimal(-100), chain=scene.chain.name, **WHY)
    other = make_agent(balance="0")

    fund_agent(other.id, amount=Decimal(120), chain=scene.chain.name, **WHY)

    assert (balance(scene.agent), balance(other)) == (900, 120)


@pytest.mark.parametrize("is_later", [False, True])
def test_what_left_for_nobody_knows_whom_covers_nothing(scene, is_later):
    scene.lose("15", block_number=scene.block + is_later)
    if not is_later:
        Reconciliation.objects.filter(chain=scene.chain.name).update(holds=1005)

    assert find_surplus(scene.chain.name, Asset.USDC) == 5


def test_a_surplus_of_one_chain_covers_nothing_while_too_much_is_promised_over_all(scene, settings):
    level(settings, scene.chain.name, surplus="-1")

    with pytest.raises(OperationRefused, match=r"^1\.00 USDC are not covered: over all chains .* are promised"):
        fund_agent(scene.agent.id, amount=Decimal(1), chain=scene.chain.name, **WHY)


@pytest.mark.parametrize(("ago", "is_covered"), [(timedelta(minutes=9), True), (timedelta(minutes=11), False)])
def test_a_credit_rests_on_a_recent_look_at_the_escrow(scene, ago, is_covered):
    Reconciliation.objects.filter(chain=scene.chain.name).update(created_at=utc_now() - ago)

    if is_covered:
        fund_agent(scene.agent.id, amount=Decimal(1), chain=scene.chain.name, **WHY)
    else:
        with pytest.raises(OperationRefused, match=r"in the last 10 minutes: run `manage.py reconcile --chain"):
            fund_agent(scene.agent.id, amount=Decimal(1), chain=scene.chain.name, **WHY)
        adjust_balance(scene.agent.id, amount=Decimal(-1), chain=scene.chain.name, **WHY)


def test_a_look_at_an_earlier_escrow_covers_nothing(scene, settings):
    settings.CHAINS |= served(scene.chain.name, escrow="the next one")
    Reconciliation.objects.filter(chain=scene.chain.name).update(escrow="the one before")

    with pytest.raises(OperationRefused, match="reconcile"):
        fund_agent(scene.agent.id, amount=Decimal(1), chain=scene.chain.name, **WHY)


@pytest.mark.parametrize("chain", [LOCALNET, "nowhere"])
@pytest.mark.parametrize("amount", ["1", "-1"])
def test_a_movement_names_a_served_chain_with_the_asset(scene, chain, amount):
    with pytest.raises(OperationRefused, match="No escrow of USDC is served"):
        adjust_balance(scene.agent.id, amount=Decimal(amount), chain=chain, **WHY)


@pytest.mark.parametrize("amount", ["0", "-1", "NaN", "Infinity", "0.0000001"])
def test_a_credit_is_a_positive_amount_of_the_asset(scene, amount):
    with pytest.raises(OperationRefused):
        fund_agent(scene.agent.id, amount=Decimal(amount), chain=scene.chain.name, **WHY)

    assert balance(scene.agent) == 1000


def test_an_agent_that_does_not_exist_is_refused(scene):
    with pytest.raises(OperationRefused, match=r"^There is no agent nobody\.$"):
        fund_agent("nobody", amount=Decimal(1), chain=scene.chain.name, **WHY)


def test_the_largest_surplus_is_found(scene, settings):
    richer, poorer, unknown = new_name("richer"), new_name("poorer"), new_name("unknown")
    make_comparison(richer, holds=Decimal(21))
    make_comparison(poorer, holds=Decimal(19))
    settings.CHAINS = served(poorer, scene.chain.name, unknown)
    assert find_largest_surplus(Asset.USDC) == scene.chain.name
    settings.CHAINS |= served(richer)
    assert find_largest_surplus(Asset.USDC) == richer

    settings.CHAINS = served(unknown)
    assert find_largest_surplus(Asset.USDC) == unknown  # the only one
    settings.CHAINS |= served("another")
    with pytest.raises(OperationRefused, match="The holdings of USDC were not read lately"):
        find_largest_surplus(Asset.USDC)


@pytest.mark.usefixtures("committed")
def test_credits_at_once_use_a_surplus_once(settings):
    chain, agents = make_fake_chain(), [make_agent(balance="0") for _ in range(4)]
    make_comparison(chain.name, holds=Decimal(5))
    level(settings, chain.name, surplus="1000")

    def credit(agent: Agent) -> bool:
        try:
            fund_agent(agent.id, amount=Decimal(2), chain=chain.name, **WHY)
        except OperationRefused:
            return False
        return True

    booked = at_once([partial(credit, agent) for agent in agents * 2])

    assert booked.count(True) == 2
    assert sum(balance(agent) for agent in agents) == 4
    assert find_surplus(chain.name, Asset.USDC) == 1
