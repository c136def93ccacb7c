"""Payments that share a transaction are followed as one, and each is settled, skipped or given back by itself."""

import pytest

from ledger.models import LogEntry
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Leg, Payment, Settlement
from payments.payment_states import find_payment
from payments.reconciling.escrow_history import search_history
from payments.settling.unpaid import resolve_unpaid
from services.models import WebhookEvent
from tests.support.fake_chain import MOST_COST
from tests.support.invariants import check_agent, check_nonces
from tests.support.scenes import (
    HOUR,
    Scene,
    state_of,
    states_of,
    status_of,
    transaction_of,
    transactions_of,
    transitions_of,
    void_of,
)
from tests.support.scripted_chain import outflow_of
from tests.support.together import pay_together

S = SettlementState
PAID, FAILED, APPROVED = PaymentStatus.SETTLED, PaymentStatus.FAILED, PaymentStatus.APPROVED
BLOCKED = "escrow: token refused"


@pytest.fixture
def with_nonces(db: None) -> Scene:
    return Scene()


def settle_with(scene: Scene, payments: list[Payment], *skipped: Payment) -> None:
    """Put the transaction of payments into a final block, which skips some of them, and notice."""
    scene.chain.include(transaction_of(payments[0]), skips={one.escrow_id: BLOCKED for one in skipped})
    scene.confirm()


def statuses(payments: list[Payment]) -> list[str]:
    return [status_of(one) for one in payments]


def all_add_up(scene: Scene, payments: list[Payment]) -> None:
    for one in payments:
        check_agent(one.agent_id)
    check_nonces(scene.chain.name)


# --- All of them ------------------------------------------------------------------------------------------------------
def test_what_is_decided_together_settles_in_one_transaction_that_each_answer_names(scene):
    payments = pay_together(scene)

    row = Settlement.objects.get(chain=scene.chain.name)
    assert {entry.tx for entry in LogEntry.objects.filter(payment_id__in=payments)} == {row.tx}
    assert row.most_cost == 3 * MOST_COST
    assert set(row.legs.values_list("payment_id", "most_cost", "is_live")) == {
        (p.pk, MOST_COST, True) for p in payments
    }

    settle_with(scene, payments)

    assert statuses(payments) == [PAID] * 3
    told = WebhookEvent.objects.filter(service=scene.service, type="payment.settled")
    assert all(f'"{row.tx}"' in event.payload for event in told)
    assert told.count() == 3
    all_add_up(scene, payments)


def test_a_lone_payment_has_a_transaction_of_its_own(scene):
    (payment,) = pay_together(scene, 1)

    assert Leg.objects.get(payment=payment).most_cost == transaction_of(payment).most_cost == MOST_COST


def test_a_block_that_vanishes_takes_none_of_them_with_it(scene):
    payments = pay_together(scene)
    row = transaction_of(payments[0])
    scene.chain.include(row, is_final=False)
    scene.confirm()
    scene.chain.vanish(row)
    scene.confirm()
    assert state_of(payments[0]) == S.BROADCAST

    scene.broadcast()
    settle_with(scene, payments)

    assert statuses(payments) == [PAID] * 3
    all_add_up(scene, payments)


def test_a_higher_fee_is_for_all_of_them_and_whichever_is_included_counts(with_nonces):
    scene = with_nonces
    payments = pay_together(scene)
    first = transaction_of(payments[0])
    scene.bump()
    assert [states_of(one) for one in payments] == [[S.REPLACED, S.BROADCAST]] * 3

    scene.chain.include(first)
    scene.confirm()

    assert statuses(payments) == [PAID] * 3
    assert [states_of(one) for one in payments] == [[S.FINAL, S.REPLACED]] * 3
    assert set(Leg.objects.filter(is_live=True).values_list("settlement", flat=True)) == {first.tx}
    all_add_up(scene, payments)


# --- Without one of them ----------------------------------------------------------------------------------------------
def test_one_that_is_skipped_spoils_nothing_and_is_signed_alone_at_once(with_nonces):
    scene = with_nonces
    payments = pay_together(scene)
    settle_with(scene, payments, payments[1])

    assert statuses(payments) == [PAID, APPROVED, PAID]
    assert states_of(payments[1]) == [S.FINAL, S.SIGNED]
    alone = transaction_of(payments[1])
    assert list(alone.payments.all()) == [payments[1]]
    shown = find_payment(payments[1].pk)
    assert shown is not None
    assert [(one.tx, one.state) for one in shown.transactions] == [
        (alone.tx, "signed"), (transaction_of(payments[0]).tx, "failed")
    ]  # fmt: skip
    assert Leg.objects.get(payment=payments[1], is_live=False).skipped == BLOCKED
    all_add_up(scene, payments)

    scene.broadcast()
    scene.chain.include(alone)
    scene.confirm()
    assert statuses(payments) == [PAID] * 3
    all_add_up(scene, payments)


def test_one_that_is_refused_alone_as_well_is_given_back_once_it_is_void(with_nonces):
    scene = with_nonces
    payments = pay_together(scene)
    settle_with(scene, payments, payments[1])
    scene.broadcast()
    scene.chain.include(transaction_of(payments[1]), failure="Reverted: " + BLOCKED)
    scene.confirm()
    assert statuses(payments) == [PAID, APPROVED, PAID]

    scene.broadcast()
    scene.chain.include(void_of(payments[1]))
    scene.confirm()

    assert statuses(payments) == [PAID, FAILED, PAID]
    all_add_up(scene, payments)


def test_one_that_is_skipped_is_not_signed_again_before_the_escrow_says_that_it_is_unpaid(with_nonces):
    scene = with_nonces
    payments = pay_together(scene)
    scene.chain.include(transaction_of(payments[0]), skips={payments[1].escrow_id: "escrow: already settled"})
    scene.chain.paid.add(payments[1].escrow_id)

    scene.confirm()
    resolve_unpaid(scene.chain.name, scene.chain)

    assert states_of(payments[1]) == [S.FINAL]
    # What has paid it, the history tells.
    scene.chain.outflows.append(outflow_of(payments[1], "0xelsewhere", scene.chain.finality.block_number + 1))
    scene.chain.finalise(scene.chain.finality.block_number + 1)
    scene.confirm()
    assert statuses(payments) == [PAID] * 3
    all_add_up(scene, payments)


def test_one_that_somebody_else_has_submitted_leaves_the_others_where_they_are(with_nonces):
    scene = with_nonces
    payments = pay_together(scene)
    scene.chain.paid.add(payments[1].escrow_id)
    scene.chain.outflows.append(outflow_of(payments[1], "0xthief", scene.chain.finality.block_number + 1))
    scene.chain.finalise(scene.chain.finality.block_number + 1)
    scene.confirm()

    assert statuses(payments) == [APPROVED, PAID, APPROVED]
    assert states_of(payments[0]) == [S.BROADCAST]

    settle_with(scene, payments, payments[1])
    assert statuses(payments) == [PAID] * 3
    all_add_up(scene, payments)


def test_all_of_them_submitted_by_somebody_else_are_settled_by_that(with_nonces):
    scene = with_nonces
    payments = pay_together(scene)
    own = transaction_of(payments[0])
    for index, one in enumerate(payments):
        scene.chain.paid.add(one.escrow_id)
        block = scene.chain.finality.block_number + 1
        scene.chain.outflows.append(outflow_of(one, "0xthief", block, log_index=index))
    scene.chain.finalise(scene.chain.finality.block_number + 1)
    scene.confirm()

    assert statuses(payments) == [PAID] * 3
    assert [transaction_of(one).tx for one in payments] == ["0xthief"] * 3
    assert Settlement.objects.get(pk=own.pk).state == S.REPLACED
    for one in payments:
        check_agent(one.agent_id)


def test_lists_that_the_history_shows_before_the_nodes_do_end_with_what_they_have_paid(with_nonces):
    scene = with_nonces
    whole, other, partly = (pay_together(scene, count) for count in (2, 3, 2))
    block = scene.chain.finality.block_number + 1
    for index, one in enumerate([*whole, *other, partly[0]]):
        scene.chain.paid.add(one.escrow_id)
        scene.chain.outflows.append(outflow_of(one, transaction_of(one).tx, block, log_index=index))
    scene.chain.finalise(block)
    search_history(scene.chain.name, scene.chain)

    assert statuses([*whole, *other, *partly]) == [*[PAID] * 6, APPROVED]
    for first in (whole[0], other[0], partly[0]):
        row = transactions_of(first)[-1]
        assert (row.state, row.block_number) == (S.FINAL, block)
        assert [new for _, new, _ in transitions_of(row)].count(S.FINAL) == 1
    assert Leg.objects.get(payment=partly[1]).skipped
    for payment in [*whole, *other, *partly]:
        check_agent(payment.agent_id)


def test_a_list_that_skips_all_ends_where_nodes_keep_no_state_of_the_final_block(with_nonces):
    scene = with_nonces
    scene.chain.is_pruned = True
    payments = pay_together(scene)
    settle_with(scene, payments, *payments)

    assert [states_of(one) for one in payments] == [[S.FINAL, S.SIGNED]] * 3
    assert statuses(payments) == [APPROVED] * 3
    assert len({transaction_of(one).tx for one in payments}) == 3


def test_one_that_is_skipped_is_not_signed_for_another_escrow_while_the_first_may_still_pay_it(with_nonces):
    scene = with_nonces
    payments = pay_together(scene)
    of_earlier = bytes(transaction_of(payments[0]).raw)
    scene.chain.spends_from_escrow = lambda raw: raw != of_earlier
    settle_with(scene, payments, payments[1])
    resolve_unpaid(scene.chain.name, scene.chain)
    assert states_of(payments[1]) == [S.FINAL]

    scene.pass_deadline(payments[1])
    resolve_unpaid(scene.chain.name, scene.chain)
    assert states_of(payments[1]) == [S.FINAL, S.SIGNED]


# --- Lost -------------------------------------------------------------------------------------------------------------
def test_those_that_have_expired_are_signed_anew_together(scene):
    payments = pay_together(scene)
    scene.pass_deadline(payments[0])
    scene.confirm()

    assert [states_of(one) for one in payments] == [[S.EXPIRED, S.SIGNED]] * 3
    assert len({transaction_of(one).tx for one in payments}) == 1

    scene.broadcast()
    settle_with(scene, payments)
    assert statuses(payments) == [PAID] * 3
    all_add_up(scene, payments)


def test_of_those_that_have_expired_each_old_one_is_given_back(scene):
    payments = pay_together(scene)
    Payment.objects.filter(pk=payments[0].pk).update(created_at=payments[0].created_at - 2 * HOUR)
    scene.pass_deadline(payments[0])
    scene.confirm()

    assert statuses(payments) == [FAILED, APPROVED, APPROVED]
    assert states_of(payments[1]) == states_of(payments[2]) == [S.EXPIRED, S.SIGNED]


def test_a_list_that_reverts_is_voided_payment_by_payment(with_nonces):
    scene = with_nonces
    payments = pay_together(scene)
    scene.chain.include(transaction_of(payments[0]), failure="Reverted: EnforcedPause")
    scene.confirm()

    assert [state_of(one) for one in payments] == [S.FAILED] * 3
    scene.give_back(*payments)
    assert statuses(payments) == [FAILED] * 3
    all_add_up(scene, payments)
