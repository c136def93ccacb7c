"""Several workers at once give a failed payment back once, and never overspend."""

from datetime import timedelta

import pytest

from foundation.kernel.errors import BudgetExceeded
from foundation.kernel.times import utc_now
from payments.lifecycle import PaymentStatus
from payments.models import Payment, Settlement
from payments.reconciling.escrow_history import search_history
from policy.models import Agent
from tests.support.factories import make_agent
from tests.support.invariants import check_agent
from tests.support.scenes import HOUR, Scene, at_once, status_of, transaction_of

NOT_WORTH_RENEWING = timedelta(hours=2)


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize(
    ("how", "has_nonces"),
    [("reverted", True), ("reverted", False), ("expired", True), ("expired", False), ("nonce used", True)],
)
def test_a_failure_that_several_workers_see_at_once_is_given_back_once(how, has_nonces):
    scene = Scene(has_nonces=has_nonces)
    payments = [scene.pay_and_send(now=utc_now() - NOT_WORTH_RENEWING) for _ in range(8)]
    for payment in payments:
        row = transaction_of(payment)
        if how == "reverted":
            scene.chain.include(row, failure="Reverted.")
            if not has_nonces:
                scene.pass_deadline(payment)
        elif how == "expired":
            scene.pass_deadline(payment)
        else:
            scene.use_elsewhere(row)

    is_lost = has_nonces and how != "expired"
    # Of several who search at once, each may leave the rest to another one.
    search_history(scene.chain.name, scene.chain)

    at_once([scene.confirm] * 3)
    if is_lost:
        assert (scene.ends(), scene.returns().count()) == (8, 0)
        assert Settlement.objects.filter(chain=scene.chain.name, is_void=True).count() == 8
        scene.make_unpayable(*payments)
        at_once([scene.confirm] * 3)

    assert scene.ends() == (16 if is_lost else 8)
    assert scene.returns().count() == 8
    assert Agent.objects.get(pk=scene.agent.id).balance == 1000
    assert scene.events().count("payment.failed") == 8
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("committed")
def test_failures_and_payments_at_once_never_overspend(has_nonces):
    scene = Scene(has_nonces=has_nonces)
    scene.agent = make_agent(daily_limit="10", max_per_payment="1", weekly_limit="1000")
    payments = [scene.pay_and_send() for _ in range(10)]
    for payment in payments:
        scene.chain.include(transaction_of(payment), failure="Reverted.")
    scene.confirm()
    scene.make_unpayable(*payments)

    def pay_what_fits() -> int:
        approved = 0
        for _ in range(30):
            try:
                scene.pay()
            except BudgetExceeded as error:
                assert "daily limit" in str(error)  # noqa: PT017 - the others are counted
            else:
                approved += 1
        return approved

    *approvals, _ = at_once([pay_what_fits, pay_what_fits, scene.confirm])

    assert [status_of(payment) for payment in payments] == [PaymentStatus.FAILED] * 10
    assert scene.returns().count() == 10
    while pay_what_fits():
        pass
    assert Payment.objects.filter(agent=scene.agent, status="approved").count() == 10
    assert sum(approvals) <= 10
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("committed")
def test_workers_that_send_follow_and_heal_at_once_stop_each_other_nowhere(has_nonces):
    """Payments that settle, revert, are stuck or expire, while three of each kind of worker are at them."""
    scene = Scene(relayers=2, has_nonces=has_nonces)
    payments = [scene.pay("0.01", utc_now() - NOT_WORTH_RENEWING) for _ in range(12)]
    for number, payment in enumerate(payments):
        if number % 3:
            scene.chain.include(transaction_of(payment), failure="Reverted." if number % 2 else None)

    for _ in range(2):
        scene.let_pass(HOUR / 2)
        at_once([scene.broadcast, scene.confirm, scene.raise_fees, scene.tend] * 2)
    scene.pass_deadline(payments[-1])
    for _ in range(3):
        at_once([scene.broadcast, scene.confirm, scene.tend] * 2)

    for number, payment in enumerate(payments):
        settled = number % 3 and not number % 2
        assert status_of(payment) == (PaymentStatus.SETTLED if settled else PaymentStatus.FAILED)
    assert scene.returns().count() == sum(status_of(payment) == PaymentStatus.FAILED for payment in payments)
    check_agent(scene.agent.id)
