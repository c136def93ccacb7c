"""A payment that its payee takes (x402): settled by the chain's history, given back once no block can have it."""

import hashlib
import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from chains.port import AuthorizationTerms, OutflowEvent
from foundation.kernel.times import utc_now
from payments.deciding.answers import answer
from payments.deciding.operations import conclude, decide_together, request_payment
from payments.deciding.requests import Demand, PaymentRequest
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import ChainState, Outflow, Payment, Relayer, Settlement
from payments.reconciling.verification import Progress, verify_agent
from payments.settling.expired_authorizations import NOT_TAKEN, give_back_expired
from policy.models import Agent
from services.models import WebhookEvent
from tests.support.invariants import check_agent, check_nonces
from tests.support.outflows import search, take_out
from tests.support.payment_requests import environment_of, make_request
from tests.support.scenes import Scene

SECOND = timedelta(seconds=1)
TOKEN = "0x" + "22" * 20
VALID_S = 60


@pytest.fixture
def has_nonces() -> bool:
    """Where an escrow counts no payments, no payee can take one."""
    return True


def demand(scene: Scene, amount: str = "1.00", key: str | None = None) -> PaymentRequest:
    asked = make_request(scene.agent, scene.service, amount, key)
    terms = AuthorizationTerms(TOKEN, "USD Coin", "2", VALID_S)
    requirements = {"network": scene.chain.name, "asset": TOKEN}
    wanted = Demand(scene.chain.name, scene.service.address, terms, requirements)
    fingerprint = hashlib.sha256(b"x402" + asked.fingerprint).digest()
    return replace(asked, demand=wanted, fingerprint=fingerprint)


def authorized(scene: Scene, amount: str = "1.00", key: str | None = None) -> Payment:
    entry = request_payment(demand(scene, amount, key), environment_of(scene.chain)).entry
    return Payment.objects.get(pk=entry.payment_id)


def take(scene: Scene, payment: Payment, **changes: Any) -> OutflowEvent:
    """Let the payee have taken it, in a block that is final."""
    scene.chain.paid.add(payment.escrow_id)
    found = take_out(scene, payment, **changes)
    search(scene)
    return found


def give_back(scene: Scene) -> int:
    scene.follow()
    return give_back_expired(scene.chain.name, scene.chain)


def end_of(payment: Payment) -> datetime:
    assert payment.authorized_until is not None
    return payment.authorized_until


def status_of(payment: Payment) -> str:
    return Payment.objects.get(pk=payment.pk).status


def problems_of(scene: Scene) -> list[object]:
    return list(verify_agent(scene.agent.id, Progress()))


def test_it_is_given_back_only_once_all_nodes_call_a_block_past_its_end_final(scene):
    payment = authorized(scene)
    scene.chain.reach(end_of(payment) + timedelta(hours=1))

    for moment, ended in ((end_of(payment) - SECOND, 0), (end_of(payment), 0), (end_of(payment) + SECOND, 1)):
        scene.chain.time_by_all = moment
        assert give_back(scene) == ended

    assert status_of(payment) == PaymentStatus.FAILED
    check_agent(scene.agent.id)


def test_it_has_no_transaction_uses_no_nonce_and_is_in_the_log(scene):
    before = Relayer.objects.get(chain=scene.chain.name).next_nonce

    payment = authorized(scene)

    assert not Settlement.objects.filter(payments=payment).exists()
    assert Relayer.objects.get(chain=scene.chain.name).next_nonce == before
    assert Agent.objects.get(pk=scene.agent.pk).balance == scene.agent.balance - payment.amount
    said = answer(payment.entry)
    assert (said["tx"], said["paymentPayload"]["payload"]["authorization"]["nonce"]) == (None, payment.escrow_id)
    assert _tx_of(WebhookEvent.objects.get(service=scene.service)) is None
    assert problems_of(scene) == []


def test_what_the_history_shows_is_settled_with_the_payees_transaction(scene):
    payment = authorized(scene)

    taken = take(scene, payment)

    assert status_of(payment) == PaymentStatus.SETTLED
    (row,) = Settlement.objects.filter(payments=payment)
    assert (row.tx, row.state, row.nonce) == (taken.tx, SettlementState.FINAL, None)
    assert ChainState.objects.get(chain=scene.chain.name).stopped_reason == ""
    scene.chain.reach(end_of(payment) + SECOND)
    assert give_back(scene) == 0
    check_agent(scene.agent.id)
    check_nonces(scene.chain.name)
    assert problems_of(scene) == []


def test_it_is_given_back_once_only_and_only_after_its_end(scene):
    payment = authorized(scene)

    for moment, ended in ((-SECOND, 0), (0 * SECOND, 0), (SECOND, 1), (2 * SECOND, 0)):
        scene.chain.reach(end_of(payment) + moment)
        assert give_back(scene) == ended

    failed = Payment.objects.get(pk=payment.pk)
    assert (failed.status, failed.failure_reason) == (PaymentStatus.FAILED, NOT_TAKEN)
    assert Agent.objects.get(pk=scene.agent.pk).balance == scene.agent.balance
    newest = WebhookEvent.objects.filter(service=scene.service).latest("id")
    assert (newest.type, _tx_of(newest)) == ("payment.failed", None)
    check_agent(scene.agent.id)
    assert problems_of(scene) == []


@pytest.mark.parametrize("doubt", ["paid", "void", "lags"])
def test_what_the_chain_does_not_call_unpaid_is_not_given_back(scene, doubt):
    payment = authorized(scene)
    scene.chain.paid |= {payment.escrow_id} if doubt == "paid" else set()
    scene.chain.voided |= {payment.escrow_id} if doubt == "void" else set()
    scene.chain.lags = doubt == "lags"

    scene.chain.reach(end_of(payment) + SECOND)

    assert give_back(scene) == 0
    assert status_of(payment) == PaymentStatus.APPROVED


def test_another_amount_than_was_authorized_stops_signing(scene):
    payment = authorized(scene)

    take(scene, payment, amount=payment.amount * 2)

    assert status_of(payment) == PaymentStatus.APPROVED
    assert Outflow.objects.get(chain=scene.chain.name).escrow_id == payment.escrow_id
    assert ChainState.objects.get(chain=scene.chain.name).stopped_reason


def test_in_one_batch_with_payments_of_ours_no_nonce_is_left_out(scene):
    ours = [make_request(scene.agent, scene.service, "1.00") for _ in range(2)]
    batch = [ours[0], demand(scene), ours[1]]

    outcomes = decide_together(batch, environment_of(scene.chain), wait_s=5)

    entries = [conclude(one, outcome).entry for one, outcome in zip(batch, outcomes, strict=True)]
    assert [entry.tx is None for entry in entries] == [False, True, False]
    check_nonces(scene.chain.name)
    assert Agent.objects.get(pk=scene.agent.pk).balance == scene.agent.balance - 3
    assert problems_of(scene) == []


def test_an_entry_whose_payload_does_not_fit_its_payment_is_found(scene):
    payment = authorized(scene)

    Payment.objects.filter(pk=payment.pk).update(authorized_until=utc_now())

    assert f"The payment {payment.pk} is not what the entry lets its payee take." in str(problems_of(scene))


def _tx_of(event: WebhookEvent) -> str | None:
    tx: str | None = json.loads(event.payload)["data"]["tx"]
    return tx
