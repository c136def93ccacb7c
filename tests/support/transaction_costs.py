"""What the transactions of a fake chain cost."""

from decimal import Decimal

from foundation.kernel.times import utc_now
from payments.deciding.reading import read_gas
from payments.models import Payment
from payments.settling.agent_gas import DAY, GasUse, find_gas_use
from payments.settling.transaction_costs import read_costs
from policy.models import Agent
from tests.support.scenes import Scene, transaction_of


def use_of(scene: Scene, agent: Agent | None = None) -> GasUse | None:
    found = [use for use in find_gas_use(utc_now(), (agent or scene.agent).id) if use.chain == scene.chain.name]
    return found[0] if found else None


def spent(scene: Scene) -> tuple[Decimal, Decimal]:
    """Read what the scene's agent has used up of a budget, and what its transactions have cost ever."""
    use = use_of(scene)
    assert use is not None
    assert read_gas(scene.agent.id, scene.chain.name, utc_now() - DAY) == use.today
    return use.today, use.ever


def find_costs(scene: Scene) -> int:
    return read_costs(scene.chain.name, scene.chain)


def settle(scene: Scene, *payments: Payment) -> None:
    scene.broadcast()
    for payment in payments:
        scene.chain.include(transaction_of(payment))
    scene.confirm()
