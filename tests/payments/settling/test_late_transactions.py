"""A transaction past its deadline, or whose payment went on without it, changes nothing."""

from datetime import timedelta

import pytest

from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Outflow
from payments.settling import renewal
from tests.support.invariants import check_agent, check_nonces
from tests.support.scenes import Scene, state_of, states_of, status_of, transaction_of, transactions_of, transitions_of
from tests.support.unpaid_payments import void_exists

S = SettlementState


@pytest.fixture
def scene(db: None) -> Scene:
    """An agent, a payee and a chain with nonces and one relayer; rolled back."""
    return Scene()


# --- Past its deadline ------------------------------------------------------------------------------------------------
def test_a_transaction_in_a_block_expires_only_if_that_came_too_late(scene):
    payment = scene.pay_and_send()
    scene.chain.include(transaction_of(payment), is_final=False)

    scene.reach_deadline(payment)
    assert scene.confirm() == 0
    assert (state_of(payment), status_of(payment)) == (S.INCLUDED, PaymentStatus.APPROVED)

    # Its block is later than the final one, which is past the deadline: there the escrow refuses it.
    scene.pass_deadline(payment)
    assert scene.confirm() == 1
    assert (states_of(payment)[0], status_of(payment)) == (S.EXPIRED, PaymentStatus.APPROVED)
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("nothing_is_signed_anew")
def test_a_raised_transaction_expires_by_the_deadline_that_is_signed_in_it(scene):
    payment = scene.pay_and_send()
    deadline = transaction_of(payment).valid_until
    scene.bump()
    assert transaction_of(payment).valid_until == deadline

    scene.reach_deadline(payment)
    assert scene.confirm() == 0
    scene.expire(payment)

    assert states_of(payment) == [S.REPLACED, S.EXPIRED]
    assert scene.returns().count() == 1
    check_agent(scene.agent.id)


# --- When its payment goes on without it ------------------------------------------------------------------------------
def test_bytes_of_a_payment_that_was_signed_anew_may_revert_late_before_that_is_final(scene):
    payment = scene.pay_and_send()
    scene.expire(payment)
    late, _ = transactions_of(payment)
    scene.tend()
    (filler,) = scene.fillers()
    scene.broadcast()

    scene.chain.include(late, failure="Reverted: escrow: too late", is_final=False)
    assert scene.confirm() == 0
    assert states_of(payment) == [S.EXPIRED, S.BROADCAST]
    scene.chain.include(late, failure="Reverted: escrow: too late")
    scene.confirm()

    filler.refresh_from_db()
    assert (filler.state, states_of(payment)) == (S.REPLACED, [S.EXPIRED, S.BROADCAST])
    assert status_of(payment) == PaymentStatus.APPROVED


@pytest.mark.parametrize("has_paid", [False, True], ids=["under way", "final"])
def test_a_replaced_one_that_reverts_late_takes_nothing_from_the_one_that_was_signed_anew(db, has_paid):
    scene = Scene(relayers=2)
    payment = scene.pay_and_send()
    late = transaction_of(payment)
    scene.bump()
    scene.expire(payment)
    scene.tend()
    scene.broadcast()
    paying = transaction_of(payment)
    assert paying.relayer != late.relayer
    if has_paid:
        scene.chain.include(paying)
        scene.confirm()

    for is_final in (False, True):
        scene.chain.include(late, failure="Reverted: escrow: too late", is_final=is_final)
        scene.confirm()
        scene.tend()
        assert payment.legs.get(settlement=paying.tx).is_live
        assert state_of(payment) == (S.FINAL if has_paid else S.BROADCAST)
    assert [row.state for row in scene.fillers()] == [S.REPLACED]

    scene.chain.include(paying)
    scene.confirm()
    assert (states_of(payment)[1:], status_of(payment)) == ([S.EXPIRED, S.FINAL], PaymentStatus.SETTLED)
    check_agent(scene.agent.id)
    check_nonces(scene.chain.name)


@pytest.fixture
def nothing_is_signed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever has expired is given back."""
    monkeypatch.setattr(renewal, "WORTH_RENEWING", timedelta(0))


@pytest.mark.usefixtures("nothing_is_signed_anew")
def test_bytes_of_a_payment_that_was_given_back_may_land_and_give_nothing_back_again(scene):
    payment = scene.pay_and_send()
    scene.expire(payment)
    late = transaction_of(payment)
    scene.tend()
    (filler,) = scene.fillers()
    scene.broadcast()

    scene.chain.include(late, failure="Reverted: escrow: too late")
    assert [scene.confirm(), scene.confirm()] == [1, 0]

    assert state_of(payment) == S.EXPIRED
    assert transitions_of(filler)[-1] == ("broadcast", "replaced", f"{late.tx} was included in its place.")
    assert scene.returns().count() == 1
    assert scene.events() == ["payment.approved", "payment.failed"]
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("nothing_is_signed_anew")
def test_an_older_transaction_of_a_payment_that_was_given_back_ends_failed_when_it_lands(scene):
    payment = scene.pay_and_send()
    first = transaction_of(payment)
    scene.bump()
    scene.expire(payment)
    scene.tend()
    scene.broadcast()

    scene.chain.include(first, failure="Reverted: escrow: too late")
    assert [scene.confirm(), scene.confirm()] == [1, 0]

    assert states_of(payment) == [S.FAILED, S.EXPIRED]
    assert [row.state for row in scene.fillers()] == [S.REPLACED]
    assert scene.returns().count() == 1
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("nothing_is_signed_anew")
def test_a_payment_that_was_given_back_and_paid_all_the_same_is_shouted_about_and_changes_nothing(scene, caplog):
    payment = scene.pay_and_send()
    scene.expire(payment)
    scene.tend()
    scene.broadcast()

    scene.chain.include(transaction_of(payment))
    scene.confirm()
    scene.confirm()

    paid = Outflow.objects.get(chain=scene.chain.name)
    assert (paid.tx, paid.escrow_id, paid.amount) == (transaction_of(payment).tx, payment.escrow_id, payment.amount)
    assert paid.why == f"{payment.pk} was given back."
    assert payment.pk in scene.stopped_reason()
    shouts = [record.getMessage() for record in caplog.records if record.levelname == "CRITICAL"]
    assert len([shout for shout in shouts if "was given back" in shout and payment.pk in shout]) == len(shouts) == 3
    assert (status_of(payment), scene.returns().count()) == (PaymentStatus.FAILED, 1)
    check_agent(scene.agent.id)


def test_bytes_of_a_payment_that_was_signed_anew_may_land_and_revert_and_change_nothing(scene):
    payment = scene.pay_and_send()
    scene.expire(payment)
    late, new = transactions_of(payment)
    scene.tend()
    (filler,) = scene.fillers()
    scene.broadcast()

    scene.chain.include(late, failure="Reverted: escrow: too late")
    assert [scene.confirm(), scene.confirm()] == [1, 0]

    assert states_of(payment) == [S.EXPIRED, S.BROADCAST]
    assert transitions_of(filler)[-1] == ("broadcast", "replaced", f"{late.tx} was included in its place.")
    scene.chain.include(new)
    assert scene.confirm() == 1
    assert (states_of(payment), status_of(payment)) == ([S.EXPIRED, S.FINAL], PaymentStatus.SETTLED)
    check_agent(scene.agent.id)
    check_nonces(scene.chain.name)


def test_what_paid_before_it_was_signed_anew_counts_and_the_new_one_comes_to_nothing(scene):
    """All nodes had said that it was unpaid. The escrow pays an id once: the new one can only revert."""
    payment = scene.pay_and_send()
    scene.expire(payment)
    late, new = transactions_of(payment)
    scene.broadcast()

    scene.chain.include(late)
    scene.confirm()
    scene.chain.include(new, failure="Reverted: AlreadyUsed")
    scene.tend()
    scene.confirm()
    scene.confirm()

    assert status_of(payment) == PaymentStatus.SETTLED
    assert (states_of(payment)[0], scene.events().count("payment.settled")) == (S.FINAL, 1)
    assert states_of(payment)[1] in (S.REPLACED, S.FAILED)
    assert not void_exists(payment)
    check_agent(scene.agent.id)
    check_nonces(scene.chain.name)
