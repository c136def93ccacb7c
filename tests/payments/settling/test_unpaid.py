"""A payment that no open transaction pays is given back past every deadline, on chains whose escrow counts payments.

Money comes back in two ways only: the escrow has voided the id; or final time is past every deadline that was ever
signed, and the escrow says that it is unpaid. The first is tested in test_void, the second here.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chains.port import ChainUnavailable, Fate, Finality, TransactionQuery
from foundation.kernel.times import utc_now
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Payment, Relayer, Settlement
from payments.settling.confirming import confirm
from payments.settling.renewal import WORTH_RENEWING
from tests.support.invariants import check_agent
from tests.support.scenes import HOUR, Scene, deadline_of, states_of, status_of, transaction_of
from tests.support.unpaid_payments import has_expired, has_lost_its_nonce, has_reverted, is_given_back, tend, voids_of

S = SettlementState
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
TOO_OLD = WORTH_RENEWING + HOUR


@pytest.fixture
def has_nonces() -> bool:
    """Without nonces, no escrow counts payments: see test_renewal and test_expiry."""
    return True


@pytest.mark.parametrize("lose", [has_reverted, has_lost_its_nonce])
def test_a_lost_payment_is_given_back_without_a_void_only_past_its_deadline(scene, lose):
    payment = lose(scene)
    Relayer.objects.filter(chain=scene.chain.name).update(is_enabled=False)  # nobody can void it
    deadline = deadline_of(payment)

    for moment, ended in ((deadline - SECOND, 0), (deadline, 0), (deadline + SECOND, 1)):
        assert not is_given_back(scene, payment)
        scene.chain.reach(moment)
        assert tend(scene) == ended

    assert is_given_back(scene, payment)
    assert Payment.objects.get(pk=payment.pk).failure_reason == transaction_of(payment).reason != ""
    assert voids_of(payment) == []
    assert tend(scene) == 0
    check_agent(scene.agent.id)


@pytest.mark.parametrize("doubt", ["paid", "void", "lags"])
def test_what_the_escrow_does_not_call_unpaid_is_neither_given_back_nor_signed_anew(scene, doubt, caplog):
    old, young = has_expired(scene, now=utc_now() - TOO_OLD), has_expired(scene)
    lost = has_reverted(scene)
    payments = [lost, young, old]
    ids = {payment.escrow_id for payment in payments}
    scene.chain.paid |= ids if doubt == "paid" else set()
    scene.chain.voided |= ids if doubt == "void" else set()
    scene.chain.lags = doubt == "lags"

    assert [tend(scene), tend(scene)] == [0, 0]

    assert [states_of(payment) for payment in payments] == [[S.FAILED], [S.EXPIRED], [S.EXPIRED]]
    assert {status_of(payment) for payment in payments} == {PaymentStatus.APPROVED}
    assert not scene.returns().exists()
    assert all(f"{payment.pk} is not unpaid" in caplog.text for payment in payments)
    assert not Settlement.objects.filter(payments__in=payments, is_void=True).exists()


def test_it_is_past_the_deadline_of_every_signature_not_only_of_the_first(scene):
    payment = has_expired(scene)
    first = deadline_of(payment)
    tend(scene)
    second = deadline_of(payment)
    assert second > first
    scene.broadcast()
    scene.chain.include(transaction_of(payment), failure="Reverted.")
    confirm(scene.chain.name, scene.chain)
    Relayer.objects.filter(chain=scene.chain.name).update(is_enabled=False)

    scene.chain.reach(second)
    assert tend(scene) == 0
    assert not is_given_back(scene, payment)
    scene.chain.reach(second + SECOND)
    assert tend(scene) == 1

    assert is_given_back(scene, payment)
    check_agent(scene.agent.id)


def test_the_escrow_is_asked_about_the_block_by_which_the_deadline_is_past(scene, monkeypatch):
    """In an earlier one, which a node that is behind shows, somebody may still have paid after it."""
    has_expired(scene, now=utc_now() - TOO_OLD)
    late = scene.chain.find_finality()
    asked: list[Finality] = []
    early = replace(late, block_number=late.block_number - 5, newest=late.newest - 5)
    said = iter([late, early, early, early])
    find_fates: Callable[..., dict[str, Fate]] = scene.chain.find_fates

    def note(sought: Sequence[TransactionQuery], finality: Finality) -> dict[str, Fate]:
        asked.append(finality)
        return find_fates(sought, finality)

    monkeypatch.setattr(scene.chain, "find_finality", lambda: next(said))
    monkeypatch.setattr(scene.chain, "find_fates", note)

    assert tend(scene) == 1

    assert asked == [late]


@pytest.mark.parametrize("lose", [has_reverted, has_lost_its_nonce])
def test_nothing_is_given_back_before_all_nodes_call_a_block_past_its_deadline_final(scene, lose):
    """Most of them do already: they may lie alike."""
    payment = lose(scene)
    Relayer.objects.filter(chain=scene.chain.name).update(is_enabled=False)  # nobody can void it
    deadline = deadline_of(payment)
    scene.chain.reach(deadline + HOUR)

    for moment, ended in ((deadline - SECOND, 0), (deadline, 0), (deadline + SECOND, 1)):
        assert not is_given_back(scene, payment)
        scene.chain.time_by_all = moment
        assert tend(scene) == ended
    assert is_given_back(scene, payment)


def test_what_has_expired_by_most_nodes_is_signed_anew_whatever_another_one_says(scene):
    """The escrow pays an id once: to be early costs gas, and no money."""
    payment = has_expired(scene)
    scene.chain.time_by_all = deadline_of(payment) - HOUR

    assert tend(scene) == 0

    assert states_of(payment) == [S.EXPIRED, S.SIGNED]


def test_payments_that_only_one_node_keeps_from_being_given_back_keep_no_others_waiting(scene, monkeypatch):
    monkeypatch.setattr("payments.settling.unpaid.BATCH_SIZE", 1)
    waiting = has_expired(scene, now=utc_now() - TOO_OLD)
    scene.chain.time_by_all = deadline_of(waiting) - HOUR
    young = has_expired(scene)

    tend(scene)

    assert [states_of(payment) for payment in (waiting, young)] == [[S.EXPIRED], [S.EXPIRED, S.SIGNED]]


@pytest.mark.parametrize("question", ["find_finality", "find_fates"])
def test_a_chain_that_goes_away_gives_nothing_back(scene, monkeypatch, question):
    payment = has_expired(scene, now=utc_now() - TOO_OLD)

    def leave(*_: Any) -> Any:
        raise ChainUnavailable

    with monkeypatch.context() as patch:
        patch.setattr(scene.chain, question, leave)
        with pytest.raises(ChainUnavailable):
            tend(scene)
    assert not is_given_back(scene, payment)
    assert tend(scene) == 1


def test_nothing_is_asked_where_nothing_is_unpaid(scene):
    scene.pay_and_send()
    scene.chain.asked.clear()
    assert tend(scene) == 0
    assert scene.chain.asked == []


def test_what_an_open_transaction_pays_is_left_alone_however_late_it_is(scene):
    payment = scene.pay_and_send(now=utc_now() - TOO_OLD)
    scene.pass_deadline(payment)
    assert tend(scene) == 0
    assert (states_of(payment), status_of(payment)) == ([S.BROADCAST], PaymentStatus.APPROVED)


def test_a_chain_without_nonces_is_left_alone(db):
    scene = Scene(has_nonces=False)
    payment = scene.pay_and_send(now=utc_now() - TOO_OLD)
    scene.chain.include(transaction_of(payment), failure="Reverted.")
    scene.pass_deadline(payment)
    scene.chain.asked.clear()
    assert tend(scene) == 0
    assert scene.chain.asked == []
