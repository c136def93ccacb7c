"""What a transaction of several payments costs is shared out among them, for their agents and the relayer."""

from decimal import Decimal

from chains.port import GasCost
from payments.models import AgentGas, Leg, Relayer, Settlement
from payments.settling.transaction_costs import record_costs
from tests.support.fake_chain import COST
from tests.support.scenes import Scene, transaction_of
from tests.support.together import pay_together


def test_each_agent_has_its_share_of_the_gas_and_all_shares_are_the_cost(scene):
    payments = pay_together(scene)
    row = transaction_of(payments[0])
    parts = [Decimal("0.5"), Decimal("0.3"), Decimal("0.2")]

    record_costs({row.tx: GasCost(Decimal(1), dict(zip([one.escrow_id for one in payments], parts, strict=True)))})

    assert [AgentGas.objects.get(agent=one.agent_id).cost for one in payments] == parts
    assert Settlement.objects.get(pk=row.pk).cost == 1


def test_shares_that_nobody_can_tell_are_equal_and_add_up(scene):
    payments = pay_together(scene)
    row = transaction_of(payments[0])

    record_costs({row.tx: GasCost(COST)})

    used = [Leg.objects.get(payment=one).cost for one in payments]
    assert sum(used) == COST
    assert max(used) - min(used) < Decimal("1e-15")


def test_the_gas_money_of_a_relayer_counts_payments_and_not_transactions(db):
    scene = Scene()
    Relayer.objects.filter(chain=scene.chain.name).update(funded_until=10)

    pay_together(scene)

    assert (scene.relayer().next_nonce, scene.relayer().funded_until) == (1, 8)
