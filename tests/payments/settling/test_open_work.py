"""What a sweep finds to do: each step runs while it has work, and an idle chain is asked one question."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from payments.lifecycle import SettlementState
from payments.settling.open_work import OpenWork, find_open_work
from tests.support.scenes import Scene
from tests.support.transaction_costs import find_costs, settle

NOTHING = OpenWork(is_open=False, is_unpaid=False, is_without_cost=False)


def work_of(scene: Scene) -> OpenWork:
    return find_open_work(scene.chain.name)


def test_a_chain_without_payments_has_nothing_to_do(scene):
    with CaptureQueriesContext(connection) as asked:
        assert work_of(scene) == NOTHING
    assert len(asked) == 1


def test_a_payment_is_work_until_its_cost_is_known(scene):
    payment = scene.pay()
    assert work_of(scene) == NOTHING._replace(is_open=True)
    settle(scene, payment)
    assert work_of(scene) == NOTHING._replace(is_without_cost=True)
    find_costs(scene)
    assert work_of(scene) == NOTHING


@pytest.mark.parametrize("state", [SettlementState.EXPIRED, SettlementState.REPLACED, SettlementState.FAILED])
def test_an_approved_payment_that_no_transaction_pays_is_work(scene, state):
    scene.pay().settlements.update(state=state)

    assert work_of(scene).is_unpaid


def test_a_void_does_not_pay(db):
    scene = Scene()
    payment = scene.pay()
    payment.settlements.update(is_void=True)
    payment.legs.update(is_void=True)

    assert work_of(scene) == NOTHING._replace(is_open=True, is_unpaid=True)


def test_the_work_of_one_chain_is_not_that_of_another(db):
    busy, idle = Scene(), Scene()
    busy.pay()

    assert work_of(busy).is_open
    assert work_of(idle) == NOTHING
