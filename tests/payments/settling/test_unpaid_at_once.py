"""Several workers at once void, sign anew or give back a payment once."""

from threading import Barrier
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from foundation.kernel.times import utc_now
from payments.lifecycle import OPEN_STATES, PaymentStatus, SettlementState
from payments.models import Settlement
from payments.reconciling.escrow_history import search_history
from payments.settling import renewal, unpaid, unpaid_payments
from payments.settling.confirming import confirm
from payments.settling.renewal import WORTH_RENEWING
from policy.models import Agent
from tests.support.factories import new_name
from tests.support.fake_chain import PATIENCE_S
from tests.support.invariants import check_agent, check_nonces
from tests.support.scenes import HOUR, Scene, at_once, state_of, states_of, status_of, void_of
from tests.support.scripted_chain import outflow_of
from tests.support.unpaid_payments import (
    back_to_normal,
    has_expired,
    has_reverted,
    is_given_back,
    out_of_service,
    stopped,
    stopped_while_it_prepares,
    tend,
    voids_of,
)

S = SettlementState
TOO_OLD = WORTH_RENEWING + HOUR


@pytest.fixture
def has_nonces() -> bool:
    """Without nonces, no escrow counts payments: see test_renewal and test_expiry."""
    return True


def test_the_database_refuses_a_second_live_void_of_a_payment_and_lets_it_stand_beside_what_pays(scene):
    payment = has_reverted(scene)
    scene.confirm()
    scene.broadcast()
    scene.use_elsewhere(void_of(payment))
    scene.confirm()
    old, new = voids_of(payment)
    for state in (*OPEN_STATES, S.FINAL):
        with pytest.raises(IntegrityError, match="leg_one_live_per_payment"), transaction.atomic():
            Settlement.objects.filter(pk=old.pk).update(state=state)
    assert [void.state for void in voids_of(payment)] == [old.state, new.state]
    Settlement.objects.filter(payments=payment, is_void=False).update(state=S.BROADCAST)


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("relayers", [1, 3])
def test_workers_at_once_void_once(relayers, monkeypatch):
    scene = Scene(relayers=relayers)
    payments = [has_reverted(scene) for _ in range(6)]
    together(scene, monkeypatch, "find_finality", 2)

    at_once([lambda: tend(scene)] * 2)
    tend(scene)  # one for whom no relayer was free just then

    assert [len(voids_of(payment)) for payment in payments] == [1] * 6
    assert not scene.returns().exists()
    check_nonces(scene.chain.name)
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("committed")
def test_workers_at_once_sign_anew_once(monkeypatch):
    scene = Scene(relayers=3)
    payments = [scene.pay_and_send() for _ in range(6)]
    scene.pass_deadline(payments[-1])
    confirm(scene.chain.name, scene.chain)
    together(scene, monkeypatch, "find_fates", 2)

    at_once([lambda: tend(scene)] * 2)
    monkeypatch.undo()
    tend(scene)

    assert [states_of(payment) for payment in payments] == [[S.EXPIRED, S.SIGNED]] * 6
    check_nonces(scene.chain.name)
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("committed")
def test_workers_at_once_give_back_once(monkeypatch):
    scene = Scene()
    payments = [scene.pay_and_send(now=utc_now() - TOO_OLD) for _ in range(6)]
    scene.pass_deadline(payments[-1])
    confirm(scene.chain.name, scene.chain)
    together(scene, monkeypatch, "find_fates", 3)

    assert sum(at_once([lambda: tend(scene)] * 3)) == 6

    assert all(is_given_back(scene, payment) for payment in payments)
    assert scene.events().count("payment.failed") == 6
    assert Agent.objects.get(pk=scene.agent.pk).balance == 1000
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("committed")
def test_giving_back_while_another_one_is_found_to_have_paid_ends_with_one(monkeypatch):
    """One worker holds the word of nodes that it is unpaid, while another one finds it paid: nodes that lied."""
    scene = Scene()
    payment = has_expired(scene, now=utc_now() - TOO_OLD)
    find_fates = scene.chain.find_fates

    def settle_meanwhile(*arguments: Any) -> Any:
        fates = find_fates(*arguments)
        number = scene.chain.finality.block_number + 1
        scene.chain.outflows.append(outflow_of(payment, new_name("tx"), number))
        scene.chain.finalise(number)
        at_once([lambda: search_history(scene.chain.name, scene.chain)])
        return fates

    monkeypatch.setattr(scene.chain, "find_fates", settle_meanwhile)

    assert tend(scene) == 0

    assert status_of(payment) == PaymentStatus.SETTLED
    assert not scene.returns().exists()
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("committed")
def test_giving_back_what_another_worker_has_signed_anew_meanwhile_gives_nothing_back(monkeypatch):
    """It grew too old for one of them just then."""
    scene = Scene()
    payment = has_expired(scene)
    find_fates = scene.chain.find_fates

    def renew_meanwhile(*arguments: Any) -> Any:
        fates = find_fates(*arguments)
        monkeypatch.setattr(scene.chain, "find_fates", find_fates)
        at_once([lambda: tend(scene)])
        monkeypatch.setattr(unpaid_payments, "is_worth_renewing", lambda _: False)
        return fates

    monkeypatch.setattr(scene.chain, "find_fates", renew_meanwhile)

    assert tend(scene) == 0

    assert (states_of(payment), status_of(payment)) == ([S.EXPIRED, S.SIGNED], PaymentStatus.APPROVED)
    assert not scene.returns().exists()
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("stop", [out_of_service, stopped])
def test_a_stop_waits_for_what_is_being_signed_anew_and_then_nothing_is(stop, monkeypatch):
    scene = Scene()
    payments = [scene.pay_and_send() for _ in range(2)]
    scene.pass_deadline(payments[1])
    confirm(scene.chain.name, scene.chain)
    with stopped_while_it_prepares(scene, stop, monkeypatch):
        tend(scene)
    try:
        had = [states_of(payment) for payment in payments]
        tend(scene)
        assert [states_of(payment) for payment in payments] == had
        assert had[0] == [S.EXPIRED, S.SIGNED]
    finally:
        back_to_normal(scene)
    tend(scene)
    assert [states_of(payment) for payment in payments] == [[S.EXPIRED, S.SIGNED]] * 2
    check_agent(scene.agent.id)
    check_nonces(scene.chain.name)


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("lose", [has_reverted, has_expired])
def test_a_worker_that_dies_in_between_leaves_no_nonce_and_the_next_goes_on(lose, monkeypatch):
    scene = Scene()
    payment, next_nonce = lose(scene), scene.relayer().next_nonce

    def die(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        for room in (unpaid, renewal):
            patch.setattr(room, "create_settlement", die)
        with pytest.raises(KeyboardInterrupt):
            tend(scene)
    assert scene.relayer().next_nonce == next_nonce
    assert Settlement.objects.filter(payments=payment).count() == 1

    tend(scene)

    assert scene.relayer().next_nonce == (next_nonce or 0) + 1
    assert Settlement.objects.filter(payments=payment).count() == 2
    assert state_of(payment) == (S.FAILED if lose is has_reverted else S.SIGNED)
    check_nonces(scene.chain.name)


def together(scene: Scene, monkeypatch: pytest.MonkeyPatch, question: str, workers: int) -> None:
    """Let so many workers have the answer to a question before one of them goes on."""
    ask, everyone, asked = getattr(scene.chain, question), Barrier(workers), []

    def ask_together(*arguments: Any) -> Any:
        answer = ask(*arguments)
        asked.append(answer)
        if len(asked) <= workers:
            everyone.wait(PATIENCE_S)
        return answer

    monkeypatch.setattr(scene.chain, question, ask_together)
