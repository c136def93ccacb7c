"""An expired payment is not signed again before that is proven, nor while nothing may be signed."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from chains.port import ChainUnavailable, Fate, Finality, NonceFate, PaymentFate, TransactionQuery
from foundation.kernel.times import utc_now
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import ChainState, Payment
from payments.settling.renewal import WORTH_RENEWING
from tests.support.expired_payments import has_expired
from tests.support.fake_chain import VALIDITY_BLOCKS
from tests.support.invariants import check_agent
from tests.support.scenes import Scene, states_of, status_of, transaction_of, transitions_of
from tests.support.unpaid_payments import (
    back_to_normal,
    mismatching,
    out_of_service,
    stale,
    stopped,
    stopped_while_it_prepares,
    unprepared,
)

S = SettlementState
MINUTE = timedelta(minutes=1)
TOO_OLD = WORTH_RENEWING + MINUTE


@pytest.fixture
def has_nonces() -> bool:
    """Only what has no nonces is signed again."""
    return False


# --- Not before it is proven ------------------------------------------------------------------------------------------
def test_nothing_is_signed_again_before_the_final_height_is_past_the_last_that_takes_it(scene):
    payment = scene.pay_and_send()

    scene.reach_deadline(payment)
    assert scene.confirm() == 0
    assert states_of(payment) == [S.BROADCAST]
    scene.pass_deadline(payment)
    assert scene.confirm() == 1


@pytest.mark.parametrize("doubt", ["lags", "is_pruned", "is_away"])
def test_nothing_is_signed_again_while_the_nodes_cannot_prove_that_it_is_absent(scene, doubt):
    payment = has_expired(scene)
    setattr(scene.chain, doubt, True)

    for _ in range(3):
        look_in_vain(scene)
    assert states_of(payment) == [S.BROADCAST]
    setattr(scene.chain, doubt, False)

    assert scene.confirm() == 1
    assert states_of(payment) == [S.EXPIRED, S.SIGNED]


def look_in_vain(scene: Scene) -> None:
    """Confirm, and let nothing come of it."""
    try:
        assert scene.confirm() == 0
    except ChainUnavailable:
        assert scene.chain.is_away


def test_nothing_is_signed_again_on_one_nodes_word(scene, monkeypatch):
    """A node shows it nowhere; another has it, so together they prove nothing."""
    payment = has_expired(scene)

    def contradict(sought: Sequence[TransactionQuery], finality: Finality) -> dict[str, Fate]:
        return {one.tx: Fate.of_all(one, PaymentFate.UNKNOWN, NonceFate.UNKNOWN) for one in sought}

    with monkeypatch.context() as patch:
        patch.setattr(scene.chain, "find_fates", contradict)
        assert scene.confirm() == 0
    assert states_of(payment) == [S.BROADCAST]


def test_what_is_in_a_block_that_is_not_final_is_not_signed_again(scene):
    payment = scene.pay_and_send()
    scene.reach_deadline(payment)
    scene.chain.include(transaction_of(payment), is_final=False)

    assert scene.confirm() == 0

    assert states_of(payment) == [S.INCLUDED]


def test_what_is_in_a_block_that_nobody_shows_is_not_signed_again(scene):
    payment = scene.pay_and_send()
    scene.chain.include(transaction_of(payment))
    scene.chain.hidden.add(transaction_of(payment).tx)
    scene.pass_deadline(payment)

    assert scene.confirm() == 1

    assert states_of(payment) == [S.FINAL]
    assert status_of(payment) == PaymentStatus.SETTLED


def test_what_nobody_shows_is_settled_by_the_chains_word_also_after_another_one_expired(scene):
    payment = has_expired(scene)
    scene.confirm()
    scene.broadcast()
    scene.chain.include(transaction_of(payment))
    scene.chain.hidden.add(transaction_of(payment).tx)
    scene.pass_deadline(payment)

    assert scene.confirm() == 1

    assert states_of(payment) == [S.EXPIRED, S.FINAL]
    check_agent(scene.agent.id)


def test_nodes_that_call_it_gone_while_it_can_still_land_are_not_believed(scene, monkeypatch):
    payment = scene.pay_and_send()
    scene.reach_deadline(payment)

    def call_it_gone(sought: Sequence[TransactionQuery], finality: Finality) -> dict[str, Fate]:
        return {one.tx: Fate.of_all(one, PaymentFate.UNPAID, NonceFate.UNUSED) for one in sought}

    monkeypatch.setattr(scene.chain, "find_fates", call_it_gone)

    assert scene.confirm() == 0
    assert states_of(payment) == [S.BROADCAST]


def test_what_failed_on_the_chain_is_given_back_and_not_signed_again(scene):
    payment = scene.pay_and_send()
    scene.chain.include(transaction_of(payment), failure="The recipient's account is frozen.")
    scene.pass_deadline(payment)

    assert scene.confirm() == 1

    assert states_of(payment) == [S.FAILED]
    assert Payment.objects.get(pk=payment.pk).failure_reason == "The recipient's account is frozen."
    assert scene.returns().count() == 1


# --- Not while nothing may be signed ----------------------------------------------------------------------------------
def seen_in_the_future(scene: Scene) -> None:
    ChainState.objects.filter(chain=scene.chain.name).update(observed_at=utc_now() + timedelta(days=30))


@pytest.mark.parametrize("trouble", [out_of_service, stopped, stale, seen_in_the_future, mismatching, unprepared])
def test_nothing_is_signed_again_where_no_payment_would_be_approved(scene, trouble, caplog):
    payment = has_expired(scene)
    trouble(scene)

    assert [scene.confirm(), scene.confirm()] == [0, 0]

    assert (states_of(payment), status_of(payment)) == ([S.BROADCAST], PaymentStatus.APPROVED)
    assert transitions_of(transaction_of(payment))[-1][1] == "broadcast"
    assert (
        f"{transaction_of(payment).tx} has come to nothing, and what it was to pay is signed again later" in caplog.text
    )
    back_to_normal(scene)
    assert scene.confirm() == 1
    assert states_of(payment) == [S.EXPIRED, S.SIGNED]
    check_agent(scene.agent.id)


def test_nothing_is_signed_again_by_what_was_seen_of_the_chain_before_it_expired(scene):
    scene.observe()
    payment = has_expired(scene)

    assert scene.confirm() == 0
    assert states_of(payment) == [S.BROADCAST]

    scene.observe()
    assert scene.confirm() == 1
    new = transaction_of(payment)
    assert (new.state, new.valid_until_height) == (S.SIGNED, scene.chain.finality.height + VALIDITY_BLOCKS)


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("stop", [out_of_service, stopped])
def test_a_stop_waits_for_what_is_being_signed_again_and_then_nothing_is(stop, monkeypatch):
    scene = Scene(has_nonces=False)
    payments = [scene.pay_and_send() for _ in range(2)]
    scene.pass_deadline(payments[1])
    with stopped_while_it_prepares(scene, stop, monkeypatch):
        scene.confirm()
    try:
        # The second one's turn came while they stopped it, or after.
        had = [states_of(payment) for payment in payments]
        scene.confirm()
        assert [states_of(payment) for payment in payments] == had
        assert had[0] == [S.EXPIRED, S.SIGNED]
    finally:
        back_to_normal(scene)
    scene.confirm()
    assert [states_of(payment) for payment in payments] == [[S.EXPIRED, S.SIGNED]] * 2
    check_agent(scene.agent.id)


# --- Not for ever -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("trouble", [out_of_service, stopped, stale, seen_in_the_future, mismatching, unprepared])
def test_what_is_too_old_is_given_back_also_while_nothing_may_be_signed(scene, trouble):
    payment = scene.pay_and_send(now=utc_now() - TOO_OLD)
    scene.pass_deadline(payment)
    trouble(scene)

    assert scene.confirm() == 1

    assert status_of(payment) == PaymentStatus.FAILED
