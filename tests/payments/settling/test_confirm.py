"""Following: settled once, at finality; a reorganisation takes nothing away; never a question per payment."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chains.port import ChainUnavailable
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Outflow, Payment, Settlement
from payments.reconciling.escrow_history import search_history
from payments.settling import confirming
from tests.support.invariants import check_agent
from tests.support.scenes import Scene, at_once, state_of, status_of, transaction_of, transitions_of

S = SettlementState


# --- Settled ----------------------------------------------------------------------------------------------------------
def test_a_payment_is_settled_at_finality_and_not_before(scene):
    payment = scene.pay_and_send()
    row = transaction_of(payment)

    assert scene.confirm() == 0
    scene.chain.include(row, is_final=False)
    assert scene.confirm() == 0
    assert (state_of(payment), status_of(payment)) == (S.INCLUDED, PaymentStatus.APPROVED)
    scene.chain.finalise(transaction_of(payment).block_number)
    assert scene.confirm() == 1

    assert (state_of(payment), status_of(payment)) == (S.FINAL, PaymentStatus.SETTLED)
    assert transaction_of(payment).block_hash == scene.chain.blocks[row.tx].block_hash
    assert scene.events() == ["payment.approved", "payment.settled"]
    assert scene.confirm() == 0
    assert scene.events() == ["payment.approved", "payment.settled"]
    check_agent(scene.agent.id)


def test_more_than_one_batch_is_followed_at_a_time(scene, monkeypatch):
    monkeypatch.setattr(confirming, "BATCH_SIZE", 2)
    for payment in [scene.pay() for _ in range(5)]:
        scene.chain.include(transaction_of(payment))
    scene.broadcast()

    assert scene.confirm() == 5


def test_a_final_transaction_is_not_settled_unless_the_escrow_counts_it_as_paid(scene, caplog):
    payment = scene.pay_and_send()
    scene.chain.include(transaction_of(payment))
    scene.chain.lags = True

    assert confirming.confirm(scene.chain.name, scene.chain) == 0

    assert (state_of(payment), status_of(payment)) == (S.BROADCAST, PaymentStatus.APPROVED)
    assert f"{payment.pk} is neither settled nor unpaid by {transaction_of(payment).tx}" in caplog.text
    scene.chain.lags = False
    assert confirming.confirm(scene.chain.name, scene.chain) == 1
    assert (state_of(payment), status_of(payment)) == (S.FINAL, PaymentStatus.SETTLED)


def test_a_final_transaction_that_the_escrows_history_tells_of_is_settled_by_it(scene):
    payment = scene.pay_and_send()
    row = transaction_of(payment)
    scene.chain.include(row)
    scene.chain.lags = True  # nobody can be asked about this payment

    assert [scene.confirm(), scene.confirm()] == [1, 0]

    assert (state_of(payment), status_of(payment)) == (S.FINAL, PaymentStatus.SETTLED)
    assert transaction_of(payment).block_hash == scene.chain.blocks[row.tx].block_hash
    assert scene.events() == ["payment.approved", "payment.settled"]
    check_agent(scene.agent.id)


def test_what_the_history_and_the_transaction_itself_tell_settles_once_whichever_comes_first(scene):
    by_history, by_itself = scene.pay_and_send(), scene.pay_and_send()
    scene.chain.include(transaction_of(by_history))
    search_history(scene.chain.name, scene.chain)
    assert (status_of(by_history), status_of(by_itself)) == (PaymentStatus.SETTLED, PaymentStatus.APPROVED)
    scene.chain.include(transaction_of(by_itself))

    assert confirming.confirm(scene.chain.name, scene.chain) == 1
    search_history(scene.chain.name, scene.chain)

    assert (status_of(by_history), status_of(by_itself)) == (PaymentStatus.SETTLED, PaymentStatus.SETTLED)
    assert scene.ends() == 2
    assert scene.events().count("payment.settled") == 2
    assert (scene.stopped_reason(), Outflow.objects.filter(chain=scene.chain.name).count()) == ("", 0)
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("committed")
def test_a_settlement_that_several_workers_see_at_once_is_told_once(has_nonces):
    scene = Scene(has_nonces=has_nonces)
    for payment in [scene.pay_and_send() for _ in range(8)]:
        scene.chain.include(transaction_of(payment))

    at_once([scene.confirm] * 3)

    assert scene.ends() == 8
    assert {status_of(payment) for payment in Payment.objects.filter(chain=scene.chain.name)} == {PaymentStatus.SETTLED}
    assert scene.events().count("payment.settled") == 8


# --- Reorganised ------------------------------------------------------------------------------------------------------
def test_a_transaction_whose_block_vanished_is_sent_again_at_once_byte_for_byte_and_settled_once(scene):
    payment = scene.pay_and_send()
    row = transaction_of(payment)
    scene.chain.include(row, is_final=False)
    scene.confirm()

    scene.chain.vanish(row)
    assert scene.confirm() == 0
    assert (state_of(payment), status_of(payment)) == (S.BROADCAST, PaymentStatus.APPROVED)
    assert transitions_of(row)[-1] == ("included", "broadcast", "Its block is no longer on the chain.")
    scene.broadcast()
    assert scene.chain.sent == [bytes(row.raw)] * 2
    scene.chain.include(row)

    assert [scene.confirm(), scene.confirm()] == [1, 0]
    assert (state_of(payment), status_of(payment)) == (S.FINAL, PaymentStatus.SETTLED)
    assert scene.events() == ["payment.approved", "payment.settled"]
    check_agent(scene.agent.id)


def test_a_transaction_that_went_into_another_block_between_two_looks_is_settled_once(scene):
    payment = scene.pay_and_send()
    row = transaction_of(payment)
    scene.chain.include(row, is_final=False)
    scene.confirm()
    first = transaction_of(payment).block_hash

    scene.chain.vanish(row)
    scene.chain.include(row, is_final=False)
    assert scene.confirm() == 0

    assert state_of(payment) == S.INCLUDED
    second = transaction_of(payment)
    assert second.block_hash != first
    assert scene.chain.sent == [bytes(row.raw)]
    scene.chain.finalise(second.block_number)
    assert scene.confirm() == 1
    assert scene.events() == ["payment.approved", "payment.settled"]


def test_a_revert_that_is_reorganised_away_was_none(scene):
    payment = scene.pay_and_send()
    row = transaction_of(payment)
    scene.chain.include(row, is_final=False, failure="Reverted.")
    scene.confirm()
    scene.chain.vanish(row)
    scene.chain.include(row)

    assert scene.confirm() == 1

    assert status_of(payment) == PaymentStatus.SETTLED
    assert not scene.returns().exists()


def test_a_node_that_does_not_have_the_block_yet_changes_nothing(scene):
    payment = scene.pay_and_send()
    scene.chain.include(transaction_of(payment), is_final=False)
    scene.confirm()
    before = transitions_of(transaction_of(payment))
    scene.chain.blocks.clear()
    scene.chain.mined.clear()  # it is behind: it knows neither the transaction nor its block, and calls none lost

    assert [scene.confirm(), scene.broadcast()] == [0, 0]

    assert state_of(payment) == S.INCLUDED
    assert transitions_of(transaction_of(payment)) == before


# --- Unknown is never failed ------------------------------------------------------------------------------------------
def test_a_chain_that_is_away_fails_nothing_however_late_it_is(scene):
    payment = scene.pay_and_send()
    scene.pass_deadline(payment)
    scene.chain.is_away = True

    with pytest.raises(ChainUnavailable):
        scene.confirm()

    assert (state_of(payment), status_of(payment)) == (S.BROADCAST, PaymentStatus.APPROVED)
    assert not scene.returns().exists()


@pytest.mark.parametrize("question", ["find_inclusions", "find_fates"])
def test_a_chain_that_goes_away_between_two_questions_fails_nothing(scene, monkeypatch, question):
    payment = scene.pay_and_send()
    scene.pass_deadline(payment)

    def leave(*_: Any) -> dict[str, Any]:
        raise ChainUnavailable

    with monkeypatch.context() as patch:
        patch.setattr(scene.chain, question, leave)
        with pytest.raises(ChainUnavailable):
            scene.confirm()

    assert status_of(payment) == PaymentStatus.APPROVED
    assert scene.confirm() == 1


# --- How much it costs ------------------------------------------------------------------------------------------------
def test_the_cost_of_following_does_not_grow_with_the_number_of_payments(db, has_nonces):
    def costs(payments: int) -> list[tuple[int, list[str]]]:
        scene = Scene(relayers=7, has_nonces=has_nonces)
        rows = [transaction_of(scene.pay("0.01")) for _ in range(payments)]
        scene.broadcast()
        found = [_cost(scene)]  # waiting
        for row in rows:
            scene.chain.include(row, is_final=False)
        found += [_cost(scene), _cost(scene)]  # found in blocks; in blocks that are not final
        scene.chain.finalise(scene.chain.blocks[rows[0].tx].block_number)
        found.append(_cost(scene))
        assert not Settlement.objects.filter(chain=scene.chain.name).exclude(state=S.FINAL).exists()
        return [*found, _cost(scene)]

    waiting, included, not_final, final, over = costs(100)

    assert waiting[1] == included[1] == ["find_finality", "find_inclusions"]
    assert not_final[1] == ["find_finality", "find_lost"]
    assert final[1] == ["find_finality", "find_inclusions", "find_fates"]
    assert over == (1, [])
    # One statement for each relayer whose mined nonce is new, none for a payment.
    assert [queries for queries, _ in (waiting, included, not_final, final)] <= [15, 25, 4, 40]
    for (queries, asked), (queries_of_more, asked_for_more) in zip(
        [waiting, included, not_final, final, over], costs(110), strict=True
    ):
        assert asked == asked_for_more
        assert abs(queries - queries_of_more) <= 2


def _cost(scene: Scene) -> tuple[int, list[str]]:
    """Confirm; returns the number of statements, and what the chain was asked."""
    scene.chain.asked.clear()
    with CaptureQueriesContext(connection) as queries:
        confirming.confirm(scene.chain.name, scene.chain)
    return len(queries), list(scene.chain.asked)


# --- While others are at work -----------------------------------------------------------------------------------------
