"""Payments that a person has to approve, by the client: they are told, waited for, and paid once."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest
from allowance_client import PaymentState, errors

from ledger.models import Hold
from payments.models import Payment
from tests.clients.conftest import Customer
from tests.clients.stage import LOST, PAYMENT, Stage, answer, over_budget, paid, refused
from tests.support.answered_holds import approve, decline, expire
from tests.support.factories import new_name
from tests.support.invariants import check_agent
from tests.support.kills import wait_until
from tests.support.localnets import EVM
from workshop.localnet.folder import ROOT

EXPIRES = "2026-05-15T18:42:11.123Z"
WHY = {"rule": "under_approval_limit", "message": "A person has to approve a payment above 0.25 USDC."}
PENDING = {**PAYMENT, "status": "pending_approval", "tx": None, **WHY, "approvalExpiresAt": EXPIRES}
STATE: dict[str, Any] = {
    **PAYMENT, "agentId": "agent", "recipient": "eip155:1:0x01", "reason": "A test", "metadata": None, "finalTx": None,
    "transactions": [], "logId": "log_1", "settledAt": None, "failedAt": None, "failureReason": None, "escrowId": None,
}  # fmt: skip
DECLINED = {"declinedAt": "2026-05-14T19:00:00.000Z", "declineReason": "A person has declined this payment: No."}


def held(**changes):
    return answer(202, {**PENDING, **changes})


def state(status, **members):
    tx = "0x01" if status in ("approved", "settled") else None
    return answer(200, {**STATE, "status": status, "tx": tx, "approvalExpiresAt": EXPIRES, **members})


def declined(**members):
    return refused(403, "approval_declined", retry="new_key", rule="approved_by_person", logId="log_1", **members)


# --- On a stage
def test_a_held_payment_is_returned_at_once_and_says_that_nothing_is_paid():
    payment = Stage(held()).pay()

    assert (payment.status, payment.is_pending, payment.tx) == ("pending_approval", True, None)
    assert (payment.rule, payment.message) == (WHY["rule"], WHY["message"])
    assert payment.approval_expires_at is not None
    assert payment.approval_expires_at.isoformat() == "2026-05-15T18:42:11.123000+00:00"


def test_an_approved_payment_without_a_transaction_is_not_guessed_at():
    with pytest.raises(errors.UnexpectedAnswer):
        Stage(paid(tx=None)).pay()


def test_a_held_payment_is_waited_for_and_its_key_tells_what_has_become_of_it():
    stage = Stage(held(), state("pending_approval"), state("pending_approval"), state("approved"), paid())

    payment = stage.pay(idempotency_key="order", wait_until_decided_s=60)

    assert (payment.status, payment.tx, payment.is_pending) == ("approved", "0x01", False)
    first, *asked, last = stage.requests
    assert (first.body, first.headers) == (last.body, last.headers)
    assert [one.path for one in asked] == [f"/v1/payments/{PAYMENT['id']}"] * 3
    assert len(stage.pauses) == 2


def test_waiting_ends_with_the_time_and_the_payment_still_waits():
    stage = Stage(held(), *[state("pending_approval")] * 99)

    payment = stage.pay(wait_until_decided_s=60)

    assert payment.is_pending
    assert 50 < sum(stage.pauses) <= 60


@pytest.mark.parametrize("status", ["declined", "expired"])
def test_a_declined_payment_is_raised_with_the_keys_own_answer(status):
    stage = Stage(held(), state(status, **DECLINED), declined())

    with pytest.raises(errors.ApprovalDeclined) as raised:
        stage.pay(idempotency_key="order", wait_until_decided_s=60)

    assert (raised.value.retry, raised.value.rule, raised.value.log_id) == ("new_key", "approved_by_person", "log_1")
    assert raised.value.idempotency_key == "order"


def test_what_a_limit_refuses_after_a_person_has_approved_it_is_raised_and_nobody_is_asked_again():
    over = over_budget(allowed_in_s=30, retry_after="30", heldBy="log_1")
    stage = Stage(held(), state("declined", **DECLINED), over, held())

    with pytest.raises(errors.BudgetExceeded) as raised:
        stage.pay(idempotency_key="order", wait_until_decided_s=1, wait_until_allowed_s=60)

    assert (raised.value.idempotency_key, stage.pauses) == ("order", [])
    assert [one.headers["Idempotency-Key"] for one in stage.requests if one.method == "POST"] == ["order", "order"]


def test_a_program_that_starts_anew_after_such_a_refusal_has_nobody_asked_again():
    stage = Stage(over_budget(allowed_in_s=30, retry_after="30", heldBy="log_1"), held())

    with pytest.raises(errors.BudgetExceeded):
        stage.pay(idempotency_key="order", wait_until_decided_s=60, wait_until_allowed_s=60)


def test_lost_answers_do_not_end_the_wait():
    stage = Stage(LOST, held(), LOST, state("pending_approval"), LOST, state("approved"), LOST, paid())

    assert stage.pay(wait_until_decided_s=60).status == "approved"


def test_a_wait_that_is_cut_off_names_the_key_to_go_on_with():
    stage = Stage(held(), LOST, patience_s=0)

    with pytest.raises(errors.NoAnswer) as raised:
        stage.pay(idempotency_key="order", wait_until_decided_s=60)

    assert raised.value.idempotency_key == "order"


def decide(stage, payment=PAYMENT["id"], timeout_s=60):
    return stage.run(stage.operations.wait_until_decided(payment, timeout_s))


@pytest.mark.parametrize("status", ["approved", "settled", "failed"])
def test_a_payment_that_waits_for_nobody_is_returned_as_it_is(status):
    stage = Stage(held(), state("pending_approval"), state(status))
    payment = stage.pay()

    assert decide(stage, payment).status == status


@pytest.mark.parametrize("status", ["declined", "expired"])
def test_a_payment_that_nobody_approves_is_raised_with_its_reason(status):
    stage = Stage(state("pending_approval"), state(status, **DECLINED))

    with pytest.raises(errors.ApprovalDeclined, match="403 approval_declined: A person has declined") as raised:
        decide(stage)

    assert (raised.value.retry, raised.value.log_id) == ("new_key", "log_1")
    assert raised.value.payment is not None
    assert (raised.value.payment.status, raised.value.payment.is_declined) == (status, True)


def test_a_payment_that_nobody_answers_in_time_is_raised_as_pending():
    stage = Stage(*[state("pending_approval")] * 99)

    with pytest.raises(errors.ApprovalPending, match="waits for a person's approval until 2026-05-15") as raised:
        decide(stage, timeout_s=5)

    assert raised.value.payment.is_pending


def test_waiting_for_the_chain_waits_for_the_person_first():
    stage = Stage(state("pending_approval"), state("approved"), state("settled"))
    refusing = Stage(state("declined", **DECLINED))

    with pytest.raises(errors.ApprovalDeclined):
        refusing.run(refusing.operations.wait_settled(PAYMENT["id"]))
    assert stage.run(stage.operations.wait_settled(PAYMENT["id"])).status == "settled"


# --- x402
ASKED: dict[str, Any] = {
    "service": "shop",
    "requirements": {"scheme": "exact"},
    "reason": "A report",
    "idempotency_key": "report",
}


def test_a_demanded_payment_that_waits_is_raised_for_there_is_nothing_to_send_its_payee():
    stage = Stage(held())

    with pytest.raises(errors.ApprovalPending) as raised:
        stage.run(stage.operations.pay_demand(**ASKED))

    assert (raised.value.payment.id, raised.value.idempotency_key) == (PAYMENT["id"], "report")


def test_a_demanded_payment_is_waited_for_and_then_has_what_its_payee_is_sent():
    stage = Stage(held(), state("approved", tx=None), paid(tx=None, paymentPayload={"x402Version": 2}))

    payment = stage.run(stage.operations.pay_demand(**ASKED, wait_until_decided_s=60))

    assert payment.header == "eyJ4NDAyVmVyc2lvbiI6Mn0="
    assert [one.method for one in stage.requests] == ["POST", "GET", "POST"]
    assert stage.requests[0] == stage.requests[2]


# --- Against the server
@pytest.fixture
def asking(committed):
    """A customer whose every payment above 0.25 has to be approved."""
    EVM.observe()
    customer = Customer(approval_above=Decimal("0.25"))
    customer.service = EVM.make_service()
    customer.wanted["service"] = customer.service.id
    return customer


@contextmanager
def paying(allowance, customer, **options):
    """Pay in another thread meanwhile; gives its future, and what is held."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(allowance.pay, **customer.wanted, **options)
        hold = wait_until(Hold.objects.filter(agent=customer.agent).first, "the payment is held")
        yield future, hold


@pytest.mark.long(30)
def test_a_payment_is_held_approved_and_paid_once(servers, open_client, asking):
    allowance = open_client(servers.urls[0], asking.key)

    with paying(allowance, asking, wait_until_decided_s=60) as (future, hold):
        approve(hold.id)
        payment = future.result(60)

    assert (payment.id, payment.status) == (hold.id, "approved")
    assert Payment.objects.get(agent=asking.agent).id == hold.id
    (found,) = allowance.payments(idempotency_key=payment.idempotency_key)
    assert (found.id, found.tx, found.approval_expires_at) == (hold.id, payment.tx, None)
    check_agent(asking.agent.id)


@pytest.mark.long(30)
@pytest.mark.parametrize(("end", "message"), [(decline, "Too dear."), (expire, "Nobody has approved this payment")])
def test_a_payment_that_is_not_approved_is_raised_and_costs_nothing(servers, open_client, asking, end, message):
    allowance = open_client(servers.urls[0], asking.key)

    with paying(allowance, asking, wait_until_decided_s=60) as (future, hold):
        end(hold.id)
        with pytest.raises(errors.ApprovalDeclined, match=message) as raised:
            future.result(60)

    assert raised.value.is_replay
    shown = allowance.payment(hold.id)
    assert isinstance(shown, PaymentState)
    assert (shown.is_declined, shown.log_id) == (True, raised.value.log_id)
    assert not Payment.objects.filter(agent=asking.agent).exists()
    assert (allowance.budget().balance, allowance.budget().held_for_approval) == (1000, None)


def test_an_evaluation_and_the_log_tell_that_a_person_is_asked(servers, open_client, asking):
    allowance = open_client(servers.urls[0], asking.key)

    evaluation = allowance.evaluate(**asking.wanted)
    payment = allowance.pay(**asking.wanted)
    (entry,) = allowance.logs("held")

    assert (evaluation.result, evaluation.is_held, evaluation.is_approved) == ("held", True, False)
    assert (entry.result, entry.payment_id, entry.rule) == ("held", payment.id, payment.rule)
    budget = allowance.budget()
    half = Decimal("0.5")
    assert (budget.balance, budget.spent_today, budget.held_for_approval) == (Decimal("999.5"), half, half)


# A program that is killed with -9 while it waits for a person, once the payment is held.
DIES = """
import os, signal, sys
from allowance_client import Allowance
from allowance_client import paying
paying.wait_until_decided = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
url, api_key, service, key = sys.argv[1:]
with Allowance(url, api_key) as allowance:
    allowance.pay(service=service, amount="0.50", asset="USDC", reason="A test", idempotency_key=key,
                  wait_until_decided_s=60)
"""


@pytest.mark.long(30)
def test_a_client_that_is_killed_while_it_waits_and_started_again_pays_once(servers, open_client, asking):
    key = new_name("order")
    command = [sys.executable, "-c", DIES, servers.urls[0], asking.key, asking.service.id, key]
    died = subprocess.run(command, env={"PYTHONPATH": str(ROOT / "clients/python")}, check=False, timeout=60)
    assert died.returncode == -9
    allowance = open_client(servers.urls[1], asking.key)

    with paying(allowance, asking, idempotency_key=key, wait_until_decided_s=60) as (future, hold):
        approve(hold.id)
        payment = future.result(60)

    assert payment.status == "approved"
    assert Hold.objects.filter(agent=asking.agent).count() == Payment.objects.filter(agent=asking.agent).count() == 1
    assert allowance.pay(**asking.wanted, idempotency_key=key).id == payment.id
