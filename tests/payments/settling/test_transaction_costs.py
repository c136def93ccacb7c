"""What each agent's transactions cost, from the most that was signed for to what they really cost."""

from decimal import Decimal
from functools import partial

import pytest

from payments.lifecycle import PaymentStatus
from payments.models import Relayer, Settlement
from payments.settling.transaction_costs import GIVE_UP_AFTER, read_costs
from tests.support.fake_chain import COST, MOST_COST
from tests.support.local_chain import Localnet
from tests.support.scenes import Scene, at_once, status_of, transaction_of, transactions_of, void_of
from tests.support.transaction_costs import find_costs, settle, spent, use_of

NOTHING = Decimal(0)


# --- What is counted --------------------------------------------------------------------------------------------------
def test_a_payment_counts_at_its_most_until_it_is_known_what_it_has_cost(scene):
    payment = scene.pay()
    assert spent(scene) == (MOST_COST, NOTHING)
    settle(scene, payment)
    assert spent(scene) == (MOST_COST, NOTHING)

    assert find_costs(scene) == 1

    assert spent(scene) == (COST, COST)
    assert transaction_of(payment).cost == COST
    assert find_costs(scene) == 0
    assert spent(scene) == (COST, COST)


def test_a_payment_that_failed_on_the_chain_has_cost_gas_too(scene):
    payment = scene.pay_and_send()
    scene.chain.include(transaction_of(payment), failure="Reverted.")
    scene.confirm()
    scene.give_back(payment)

    find_costs(scene)

    assert status_of(payment) == PaymentStatus.FAILED
    # With nonces, what voided it has cost as much.
    times = 2 if scene.chain.has_nonces else 1
    assert spent(scene) == (times * COST, times * COST)
    assert not scene.chain.has_nonces or void_of(payment).cost == COST


def test_of_a_payment_that_was_signed_several_times_only_what_landed_has_cost_anything(db):
    scene = Scene()
    payment = scene.pay_and_send()
    scene.bump()
    old, new = transactions_of(payment)
    assert spent(scene) == (MOST_COST, NOTHING)
    scene.chain.include(new)
    scene.confirm()

    assert find_costs(scene) == 2

    assert spent(scene) == (COST, COST)
    assert [Settlement.objects.get(pk=row.pk).cost for row in (old, new)] == [0, COST]


def test_what_may_still_land_is_not_said_to_have_cost_nothing(db):
    scene = Scene()
    scene.pay_and_send()
    scene.bump()

    assert find_costs(scene) == 0


def test_what_expired_without_nonces_has_cost_nothing_and_what_took_its_place_counts(db):
    scene = Scene(has_nonces=False)
    payment = scene.pay_and_send()
    scene.expire(payment)
    assert len(transactions_of(payment)) == 2

    find_costs(scene)

    assert spent(scene) == (MOST_COST, NOTHING)


def test_what_fills_a_nonce_is_nobodys(db):
    scene = Scene()
    scene.skip_nonce()
    scene.tend()
    (filler,) = scene.fillers()
    scene.broadcast()
    scene.chain.include(filler)
    scene.confirm()

    find_costs(scene)

    assert scene.fillers()[0].cost == COST
    assert use_of(scene) is None


def test_what_somebody_else_submitted_has_cost_us_nothing(db):
    scene = Scene()
    payment = scene.pay_and_send()
    settle(scene, payment)
    Settlement.objects.filter(payments=payment).update(raw=b"", most_cost=None)
    payment.legs.update(most_cost=None)

    assert find_costs(scene) == 0
    assert use_of(scene) is None


def test_what_nodes_do_not_tell_alike_stays_at_its_most(scene):
    payment = scene.pay()
    settle(scene, payment)
    row = transaction_of(payment)
    scene.chain.untold.add(row.tx)
    assert find_costs(scene) == 0
    assert spent(scene) == (MOST_COST, NOTHING)

    Settlement.objects.filter(pk=row.pk).update(changed_at=row.changed_at - GIVE_UP_AFTER)
    find_costs(scene)

    assert spent(scene) == (MOST_COST, MOST_COST)


@pytest.mark.parametrize("is_over", [True, False])
def test_what_was_replaced_is_said_to_have_cost_nothing_only_once_another_one_landed_at_its_nonce(db, is_over):
    scene = Scene()
    payment = scene.pay_and_send()
    scene.bump()
    old, new = transactions_of(payment)
    if is_over:
        scene.chain.include(new)
        scene.confirm()
    # As nodes say, which do not tell of it.
    Relayer.objects.filter(chain=scene.chain.name).update(mined_nonce=1)
    scene.chain.untold.add(old.tx)
    Settlement.objects.filter(pk=old.pk).update(changed_at=old.changed_at - GIVE_UP_AFTER)

    find_costs(scene)

    assert Settlement.objects.get(pk=old.pk).cost == (0 if is_over else None)


@pytest.mark.parametrize("is_told", [True, False])
def test_a_node_that_says_that_no_nonce_is_used_does_not_use_up_a_gas_budget(scene, is_told):
    payment = scene.pay()
    settle(scene, payment)
    row = transaction_of(payment)
    Relayer.objects.filter(chain=scene.chain.name).update(mined_nonce=0)
    if not is_told:
        scene.chain.untold.add(row.tx)
        Settlement.objects.filter(pk=row.pk).update(changed_at=row.changed_at - GIVE_UP_AFTER)

    assert find_costs(scene) == 1

    cost = COST if is_told else MOST_COST
    assert spent(scene) == (cost, cost)


@pytest.mark.usefixtures("committed")
def test_workers_at_once_count_a_cost_once():
    scene = Scene()
    payments = [scene.pay() for _ in range(4)]
    settle(scene, *payments)

    at_once([partial(find_costs, scene)] * 4)

    assert spent(scene) == (4 * COST, 4 * COST)


def test_what_was_signed_before_this_was_recorded_is_not_counted(scene):
    payment = scene.pay()
    Settlement.objects.filter(payments=payment).update(most_cost=None)
    payment.legs.update(most_cost=None)
    settle(scene, payment)

    assert find_costs(scene) == 0
    assert use_of(scene) is None


# --- On real chains ---------------------------------------------------------------------------------------------------
def test_on_a_real_chain_all_costs_together_are_what_the_relayer_has_less(real, localnet):
    localnet.observe()
    before = gas_money(localnet)
    payments = [real(), *(real(asset=asset) for asset in localnet.assets)]
    rows = Settlement.objects.filter(payments__in=payments)
    assert all(row.legs.get().agent_id and row.most_cost for row in rows)

    localnet.drain()
    read_costs(localnet.caip2, localnet.adapter)

    costs = [(row.cost, row.most_cost) for row in rows.all()]
    assert all(0 < cost <= most for cost, most in costs)
    localnet.observe()
    assert sum(cost for cost, _ in costs) == before - gas_money(localnet)


def gas_money(localnet: Localnet) -> Decimal:
    balance: Decimal | None = Relayer.objects.get(chain=localnet.caip2, number=0).gas_balance
    assert balance is not None
    return balance
