"""A fee that is raised while the chain is asked stops nothing and fails nothing twice."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from chains.port import Finality, Observation, TransactionQuery
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Settlement
from payments.settling.broadcasting import RETRY_AFTER
from payments.settling.confirming import confirm
from payments.settling.state_changes import StateChange
from payments.settling.transitions import change_states
from tests.support.invariants import check_agent
from tests.support.scenes import HOUR, Scene, row_of, status_of, transaction_of

S = SettlementState


@pytest.fixture
def scene(db: None) -> Scene:
    """An agent, a payee and a chain with nonces and one relayer; rolled back."""
    return Scene()


def test_a_fee_that_is_raised_while_the_chain_is_asked_stops_nothing(scene, monkeypatch):
    """The old transaction is final, the newer one is being replaced at that moment: the next look settles."""
    payment = scene.pay_and_send()
    first = transaction_of(payment)
    scene.bump()
    scene.chain.include(first)
    scene.let_pass(HOUR / 2)
    _do_while_asked(scene, monkeypatch, scene.raise_fees)

    assert [look(scene), scene.broadcast(), look(scene)] == [0, 1, 1]

    rows = Settlement.objects.filter(payments=payment).order_by("created_at")
    assert [row.state for row in rows] == [S.FINAL, S.REPLACED, S.REPLACED]
    assert status_of(payment) == PaymentStatus.SETTLED
    check_agent(scene.agent.id)


def test_a_fee_that_is_raised_while_a_failure_is_proven_fails_the_payment_once(scene, monkeypatch):
    payment, other = scene.pay_and_send(), scene.pay_and_send()
    first = transaction_of(payment)
    scene.bump()
    scene.chain.include(first, failure="Reverted.")
    scene.chain.include(transaction_of(other))
    scene.let_pass(HOUR / 2)
    _do_while_asked(scene, monkeypatch, scene.raise_fees)

    assert [look(scene), scene.broadcast(), look(scene), look(scene)] == [1, 1, 1, 0]
    assert scene.returns().count() == 0
    scene.confirm()
    scene.void(payment)

    assert [status_of(payment), status_of(other)] == [PaymentStatus.FAILED, PaymentStatus.SETTLED]
    assert scene.returns().count() == 1
    assert not Settlement.objects.filter(payments=payment, state__in=[S.SIGNED, S.BROADCAST, S.INCLUDED]).exists()
    check_agent(scene.agent.id)


def test_an_offer_while_the_chain_is_asked_stops_nothing(scene, monkeypatch):
    payment = scene.pay_and_send()
    first = transaction_of(payment)
    scene.let_pass(HOUR / 2)
    assert scene.raise_fees() == 1
    scene.chain.refuses.add(bytes(transaction_of(payment).raw))
    scene.broadcast()
    scene.chain.refuses.clear()
    scene.let_pass(2 * RETRY_AFTER)
    scene.chain.include(first, is_final=False)
    _do_while_asked(scene, monkeypatch, scene.broadcast)

    scene.confirm()
    scene.confirm()

    assert [row.state for row in Settlement.objects.filter(payments=payment).order_by("created_at")] == [
        S.INCLUDED,
        S.REPLACED,
    ]


def test_a_transaction_that_takes_the_place_of_another_does_so_with_it_or_not_at_all(scene):
    payment = scene.pay_and_send()
    first = transaction_of(payment)
    scene.bump()
    first.refresh_from_db()
    second = row_of(transaction_of(payment))
    scene.bump()  # a third has taken the place of the second, which somebody read before that

    change = StateChange(row_of(first), S.INCLUDED, block_number=1, block_hash="0x1", displaces=second)
    assert change_states([change]) == []

    assert [row.state for row in Settlement.objects.filter(payments=payment).order_by("created_at")] == [
        S.REPLACED,
        S.REPLACED,
        S.BROADCAST,
    ]


def look(scene: Scene) -> int:
    """Look for the transactions alone, not at the escrow's history."""
    return confirm(scene.chain.name, scene.chain)


def _do_while_asked(scene: Scene, monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    """Let something be done once, between what the next look reads and what it concludes."""
    find = scene.chain.find_inclusions

    def act_and_find(sought: Sequence[TransactionQuery], finality: Finality) -> Observation:
        monkeypatch.setattr(scene.chain, "find_inclusions", find)
        act()
        return find(sought, finality)

    monkeypatch.setattr(scene.chain, "find_inclusions", act_and_find)
