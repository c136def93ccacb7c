"""Without nonces, too, nothing is approved that no relayer could submit."""

from functools import partial

import pytest
from django.conf import settings
from django.db import connection, transaction

from foundation.kernel.errors import PolicySignerUnavailable
from ledger.models import LogEntry
from payments.lifecycle import PaymentStatus
from payments.models import Settlement
from tests.support.payment_requests import pay_on
from tests.support.payment_storms import storm
from tests.support.scenes import Scene, at_once, status_of, transaction_of

pytestmark = pytest.mark.usefixtures("one_relayer")


LINE = settings.MAX_IN_FLIGHT_PER_RELAYER


@pytest.mark.usefixtures("committed")
def test_a_storm_by_one_relayer_without_nonces_is_approved_only_as_far_as_its_gas_money_goes():
    scene = Scene(has_nonces=False)
    scene.chain.gas_money["relayer-0"] = LINE + 4
    scene.tend()

    approved = storm(lambda agent: pay_on(scene.chain, agent, scene.service), agents=8, each=6)

    assert len(approved) == LINE + 4


def leave(scene: Scene, beyond: int) -> None:
    """Let there be plenty, for which payments take no turns, and so much more left of it than they leave for others."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('max_connections')::int")
        (others,) = cursor.fetchone()
    scene.chain.gas_money["relayer-0"] = 10_000
    scene.tend()
    Settlement.objects.filter(payments=scene.pay()).update(most_cost=10_000 - others - beyond)


@pytest.mark.django_db
def test_payments_that_do_not_wait_for_each_other_leave_gas_money_for_all_that_may_come_at_once():
    scene = Scene(has_nonces=False)
    leave(scene, beyond=4)

    for _ in range(5):
        scene.pay()
    with pytest.raises(PolicySignerUnavailable, match="gas money"):
        scene.pay()


@pytest.mark.usefixtures("committed")
def test_where_payments_do_not_wait_for_each_other_nothing_is_approved_beyond_the_gas_money_either():
    scene = Scene(has_nonces=False)
    leave(scene, beyond=36)
    agents = 12

    approved = storm(lambda agent: pay_on(scene.chain, agent, scene.service), agents=agents, each=6)

    # Each agent sees all but what the others are just being approved.
    assert 37 <= len(approved) < 37 + agents
    with pytest.raises(PolicySignerUnavailable, match="gas money"):
        scene.pay()


@pytest.mark.usefixtures("committed")
def test_who_waits_too_long_for_another_to_count_the_gas_money_gets_a_503_that_is_logged(caplog):
    scene = Scene(has_nonces=False)
    scene.chain.gas_money["relayer-0"] = LINE
    scene.tend()

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(5, hashtext(%s))", [str(scene.relayer().pk)])
        (refused,) = at_once([partial(refusal_of, scene)])

    assert "No relayer is free" in refused
    (entry,) = LogEntry.objects.filter(agent=scene.agent)
    assert (entry.result, entry.rule) == ("blocked", "policy_signer_available")
    assert "send some to" not in caplog.text
    assert status_of(scene.pay()) == PaymentStatus.APPROVED


def refusal_of(scene: Scene) -> str:
    with pytest.raises(PolicySignerUnavailable) as refused:
        scene.pay()
    return refused.value.message


@pytest.mark.django_db
def test_without_nonces_what_ends_frees_no_gas_money_before_it_is_seen():
    scene = Scene(has_nonces=False)
    scene.chain.gas_money["relayer-0"] = LINE
    scene.tend()
    payments = [scene.pay() for _ in range(LINE)]
    scene.broadcast()
    for payment in payments:
        scene.chain.include(transaction_of(payment))

    scene.confirm()

    assert {status_of(payment) for payment in payments} == {PaymentStatus.SETTLED}
    with pytest.raises(PolicySignerUnavailable):
        scene.pay()
    scene.tend()
    assert status_of(scene.pay()) == PaymentStatus.APPROVED


@pytest.mark.django_db
def test_without_nonces_what_ends_while_nodes_are_asked_counts_once_more(monkeypatch):
    scene = Scene(has_nonces=False)
    scene.chain.gas_money["relayer-0"] = LINE
    scene.tend()
    payments = [scene.pay() for _ in range(LINE)]
    scene.broadcast()
    for payment in payments:
        scene.chain.include(transaction_of(payment))
    observe = scene.chain.observe_relayers

    def end_and_observe(addresses):
        scene.confirm()
        return observe(addresses)

    monkeypatch.setattr(scene.chain, "observe_relayers", end_and_observe)
    scene.tend()

    with pytest.raises(PolicySignerUnavailable):
        scene.pay()
