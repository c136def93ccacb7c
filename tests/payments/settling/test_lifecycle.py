"""The states of settlements: which may follow which, that each change is recorded, and won by one process only."""

from functools import partial

import pytest
from django.db import DatabaseError, connection, transaction

from foundation.kernel.times import utc_now
from payments.lifecycle import PaymentStatus, SettlementState, may_follow
from payments.models import Settlement, Transition
from payments.settling.state_changes import StateChange
from payments.settling.transitions import change_states, fail, settle
from tests.support.invariants import check_agent
from tests.support.made_ends import fail_by
from tests.support.scenes import HOUR, Scene, at_once, row_of, state_of, status_of, transaction_of, transitions_of

S = SettlementState
PAIRS = {
    (S.SIGNED, S.BROADCAST),
    (S.SIGNED, S.INCLUDED),
    (S.SIGNED, S.FINAL),
    (S.SIGNED, S.REPLACED),
    (S.SIGNED, S.EXPIRED),
    (S.SIGNED, S.FAILED),
    (S.BROADCAST, S.INCLUDED),
    (S.BROADCAST, S.FINAL),
    (S.BROADCAST, S.REPLACED),
    (S.BROADCAST, S.EXPIRED),
    (S.BROADCAST, S.FAILED),
    (S.INCLUDED, S.BROADCAST),
    (S.INCLUDED, S.FINAL),
    (S.INCLUDED, S.REPLACED),
    (S.INCLUDED, S.EXPIRED),
    (S.INCLUDED, S.FAILED),
    (S.REPLACED, S.INCLUDED),
    (S.REPLACED, S.FINAL),
    (S.REPLACED, S.FAILED),
    (S.EXPIRED, S.FINAL),
}


# --- The table --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("old", list(S))
@pytest.mark.parametrize("new", list(S))
def test_the_table_allows_these_pairs_and_no_others(old, new):
    assert may_follow(old, new) == ((old, new) in PAIRS)


@pytest.mark.parametrize("old", list(S))
@pytest.mark.parametrize("new", list(S))
def test_what_the_table_forbids_cannot_be_written(scene, old, new):
    row = transaction_of(scene.pay())
    Settlement.objects.filter(pk=row.pk).update(state=old)
    row.refresh_from_db()
    # Seen again in another block, it stays what it is.
    if (old, new) in PAIRS or old == new:
        assert len(change_states([StateChange(row_of(row), new, "A test")])) == 1
        assert Settlement.objects.get(pk=row.pk).state == new
        assert transitions_of(row) == [(old, new, "A test")]
    else:
        with pytest.raises(AssertionError, match=f"may not go from {old} to {new}"):
            change_states([StateChange(row_of(row), new)])
        assert Settlement.objects.get(pk=row.pk).state == old
        assert transitions_of(row) == []


# --- The record -------------------------------------------------------------------------------------------------------
def test_each_change_is_recorded_with_its_time_and_reason(scene):
    before = utc_now()
    payment = scene.pay_and_send()
    row = transaction_of(payment)
    scene.chain.include(row, is_final=False)
    scene.confirm()
    scene.chain.vanish(row)
    scene.confirm()
    scene.broadcast()
    scene.chain.include(row, failure="Reverted: escrow: over daily cap")
    if not scene.chain.has_nonces:
        scene.pass_deadline(payment)  # until then it is in a block, and says nothing for good
    scene.confirm()

    assert transitions_of(row) == [
        ("signed", "broadcast", ""),
        ("broadcast", "included", ""),
        ("included", "broadcast", "Its block is no longer on the chain."),
        ("broadcast", "failed", "Reverted: escrow: over daily cap"),
    ]
    times = list(Transition.objects.filter(settlement=row).order_by("id").values_list("created_at", flat=True))
    moments = [before, *times, utc_now()]
    assert moments == sorted(moments)
    assert transaction_of(payment).changed_at == times[-1]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE payments_transition SET reason = reason",
        "UPDATE payments_transition SET reason = '' WHERE false",
        "DELETE FROM payments_transition",
        "TRUNCATE payments_transition",
    ],
)
def test_the_database_refuses_to_change_what_was_recorded(scene, statement):
    scene.pay_and_send()
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    with pytest.raises(DatabaseError, match="is append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


# --- One winner -------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("committed")
def test_of_two_processes_that_change_the_same_thing_exactly_one_wins(has_nonces):
    scene = Scene(has_nonces=has_nonces)
    for end, won in ((S.FINAL, settle), (S.EXPIRED, None)):
        row = row_of(transaction_of(scene.pay()))
        moves = [StateChange(row, end, "A test")]

        counts = at_once([(lambda: won(moves)) if won else (lambda: fail_by(moves[0]))] * 4)  # noqa: B023 - done within

        assert sorted(counts) == [0, 0, 0, 1]
        assert [new for _, new, _ in transitions_of(row)] == [end]
    assert scene.events() == ["payment.approved", "payment.settled", "payment.approved", "payment.failed"]
    assert scene.returns().count() == 1
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("committed")
def test_of_settling_and_failing_at_once_exactly_one_wins(has_nonces):
    scene = Scene(has_nonces=has_nonces)
    payments = [scene.pay() for _ in range(10)]
    for payment in payments:
        row = row_of(transaction_of(payment))
        settled, failed = StateChange(row, S.FINAL), StateChange(row, S.FAILED, "A test")

        counts = at_once([partial(settle, [settled]), partial(fail_by, failed)])

        assert sorted(counts) == [0, 1]
        assert status_of(payment) == (PaymentStatus.SETTLED if counts[0] else PaymentStatus.FAILED)
    check_agent(scene.agent.id)


def test_a_process_that_read_a_state_long_ago_changes_nothing(scene):
    payment = scene.pay_and_send()
    landed = transaction_of(payment)
    stale = row_of(landed)
    scene.chain.include(landed)
    scene.confirm()
    before = transitions_of(landed)

    assert fail_by(StateChange(stale, S.FAILED, "Reverted.")) == 0
    assert fail(payment, reason="Void in the escrow.") == 0

    assert status_of(payment) == PaymentStatus.SETTLED
    assert transitions_of(landed) == before
    check_agent(scene.agent.id)


@pytest.mark.parametrize("end", [S.FINAL, S.FAILED, S.EXPIRED])
def test_an_end_is_an_end_whatever_the_chain_says_later(scene, end):
    payment = scene.pay_and_send(now=utc_now() - 2 * HOUR)  # too old to be signed again
    row = transaction_of(payment)
    if end == S.EXPIRED:
        scene.pass_deadline(payment)
    else:
        scene.chain.include(row, failure=None if end == S.FINAL else "Reverted.")
    if end == S.FAILED and not scene.chain.has_nonces:
        scene.pass_deadline(payment)
    scene.confirm()
    if end == S.FAILED and scene.chain.has_nonces:
        scene.void(payment)
    assert state_of(payment) == end
    before = (status_of(payment), scene.events(), scene.returns().count(), transitions_of(row))

    for failure in (None, "Reverted."):
        scene.chain.include(row, failure=failure)
        assert scene.confirm() == 0
    scene.broadcast()

    assert state_of(payment) == end
    assert (status_of(payment), scene.events(), scene.returns().count(), transitions_of(row)) == before
