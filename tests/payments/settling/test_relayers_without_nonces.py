"""Relayers of a chain whose accounts have no nonces."""

from functools import partial
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction

from foundation.kernel.errors import PolicySignerUnavailable
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Payment, Relayer, Settlement
from policy.models import Agent
from tests.support.factories import make_agent
from tests.support.invariants import check_agent
from tests.support.payment_requests import pay_on
from tests.support.scenes import HOUR, Scene, at_once, status_of, transaction_of, transactions_of, void_of

pytestmark = pytest.mark.usefixtures("one_relayer")


S = SettlementState
LINE = settings.MAX_IN_FLIGHT_PER_RELAYER


@pytest.fixture
def scene(db: None) -> Scene:
    """An agent, a payee and a chain with nonces and one relayer; rolled back."""
    return Scene()


@pytest.fixture
def without_nonces(settings: Any) -> Scene:
    """An agent, a payee and a chain without nonces that nobody has looked at yet."""
    settings.RELAYERS_PER_CHAIN = 16
    return Scene(relayers=0, has_nonces=False)


@pytest.mark.django_db
def test_a_chain_without_nonces_has_as_many_relayers_as_its_escrow_can_know(without_nonces):
    without_nonces.tend()
    without_nonces.tend()

    rows = Relayer.objects.filter(chain=without_nonces.chain.name)
    assert [(row.number, row.address, row.next_nonce, row.mined_nonce) for row in rows] == [(0, "relayer-0", None, 0)]
    assert rows[0].gas_balance == 1000


@pytest.mark.django_db
def test_payments_without_nonces_have_none_and_leave_nothing_to_heal(without_nonces):
    scene = without_nonces
    scene.tend()
    payments = [scene.pay("0.01") for _ in range(2 * LINE)]

    assert scene.broadcast() == 2 * LINE  # nodes keep no line
    scene.let_pass(HOUR)
    scene.tend()

    assert {transaction_of(payment).nonce for payment in payments} == {None}
    assert scene.relayer().next_nonce is None
    assert scene.raise_fees() == 0
    assert not scene.fillers()
    assert {len(transactions_of(payment)) for payment in payments} == {1}


@pytest.mark.django_db
def test_the_relayer_of_a_chain_without_nonces_is_out_of_rotation_without_gas_money(without_nonces):
    scene = without_nonces
    scene.chain.gas_money["relayer-0"] = LINE - 1
    scene.tend()
    with pytest.raises(PolicySignerUnavailable):
        scene.pay()

    scene.chain.gas_money["relayer-0"] = LINE
    scene.tend()
    assert status_of(scene.pay()) == PaymentStatus.APPROVED


@pytest.mark.usefixtures("committed")
def test_agents_do_not_wait_for_each_other_where_there_are_no_nonces():
    """One payment is not committed yet; the other, of the same and only relayer, is."""
    scene, other = Scene(has_nonces=False), make_agent()

    with transaction.atomic():
        first = scene.pay()
        (second,) = at_once([lambda: pay_on(scene.chain, other, scene.service)])
        assert status_of(second) == PaymentStatus.APPROVED

    assert {transaction_of(payment).relayer_id for payment in (first, second)} == {scene.relayer().pk}
    assert [transaction_of(payment).nonce for payment in (first, second)] == [None, None]


@pytest.mark.usefixtures("committed")
def test_many_agents_at_once_pay_by_one_relayer_without_nonces():
    scene = Scene(has_nonces=False)
    agents = [make_agent() for _ in range(6)]

    def pay_five_times(agent: Agent) -> list[Payment]:
        return [pay_on(scene.chain, agent, scene.service) for _ in range(5)]

    paid = at_once([partial(pay_five_times, agent) for agent in agents])

    rows = [transaction_of(payment) for payments in paid for payment in payments]
    assert len({row.tx for row in rows}) == 30
    assert {(row.nonce, row.relayer_id) for row in rows} == {(None, scene.relayer().pk)}
    for agent in agents:
        check_agent(agent.id)


def test_what_a_relayer_whose_key_is_gone_was_to_void_another_one_voids(db):
    scene = Scene(relayers=2)
    payment = scene.pay_and_send()
    scene.chain.include(transaction_of(payment), failure="Reverted.")
    scene.confirm()
    lost = void_of(payment)
    address = lost.relayer.address
    Relayer.objects.filter(pk=lost.relayer_id).update(address="of another seed")
    # The one that takes its place has a line of its own.
    scene.chain.mined[address] = scene.chain.final_nonces[address] = 5

    scene.tend()
    scene.confirm()

    assert Settlement.objects.get(pk=lost.pk).state == S.REPLACED
    scene.void(payment)
    assert void_of(payment).relayer_id != lost.relayer_id
    assert status_of(payment) == PaymentStatus.FAILED
    assert scene.returns().count() == 1
    assert scene.confirm() == 0
