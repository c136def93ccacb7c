"""A 402 is paid, by the reference facilitator and behind the reference middleware, on a real EVM."""

import json
import logging
import time
from typing import Any

import pytest

from foundation.telemetry.log_lines import JsonLine
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Outflow, Payment, Settlement
from payments.reconciling.reconciliation import reconcile
from payments.reconciling.verification import Progress, verify_agent
from policy.models import Agent
from tests.chains.adapter.anvil_node import has_program
from tests.payments.x402.conftest import payment_of
from tests.payments.x402.stage import NETWORK, open_shop
from tests.support.javascript import needs_node

pytestmark = [needs_node, has_program, pytest.mark.long(60)]
PRICE = 1_250_000
_PATIENCE_S = 60


@pytest.fixture
def shop(chain, payee):
    with open_shop(chain, payee.address, amount=PRICE) as opened:
        yield opened


def wait_for(deployment, payment: Payment, status: PaymentStatus) -> Payment:
    """Let the watcher and the sweeper work until a payment has come so far."""
    deadline = time.monotonic() + _PATIENCE_S
    while Payment.objects.get(pk=payment.pk).status != status:
        assert time.monotonic() < deadline, f"{payment} is not {status}"
        deployment.look()
        deployment.give_back()
        time.sleep(0.5)
    return Payment.objects.get(pk=payment.pk)


def problems_of(agent: Agent) -> list[Any]:
    return list(verify_agent(agent.id, Progress()))


def test_a_page_behind_a_402_is_paid_delivered_and_settled(chain, shop, demand, agent, payee):
    answer = demand(shop.requirements())
    assert answer.status_code == 201, answer.json()
    said = answer.json()
    assert (said["status"], said["amount"], said["tx"]) == ("approved", "1.25", None)

    page = shop.visit(said["paymentPayload"])

    assert page.json() == {"report": "what was paid for"}
    assert chain.balance_of(payee.address) == PRICE
    settled = wait_for(chain, payment_of(answer), PaymentStatus.SETTLED)
    (row,) = Settlement.objects.filter(payments=settled)
    assert row.state == SettlementState.FINAL
    assert int(chain.rpc("eth_getTransactionReceipt", row.tx)["status"], 16) == 1
    assert Agent.objects.get(pk=agent.pk).balance == 1000 - settled.amount
    assert problems_of(agent) == []
    assert not Outflow.objects.filter(chain=NETWORK).exists()


def test_what_was_taken_is_followed_by_its_id_in_the_log(
    chain, shop, demand, caplog, django_capture_on_commit_callbacks
):
    answer = demand(shop.requirements())
    shop.visit(answer.json()["paymentPayload"])

    with caplog.at_level(logging.INFO), django_capture_on_commit_callbacks(execute=True):
        settled = wait_for(chain, payment_of(answer), PaymentStatus.SETTLED)

    lines = [json.loads(JsonLine("worker").format(one)) for one in caplog.records]
    steps = [one for one in lines if one.get("paymentId") == settled.pk]
    tx = Settlement.objects.get(payments=settled).tx
    assert [(one["state"], one["tx"], one["agentId"], one["escrowId"]) for one in steps] == [
        (state, tx, settled.agent_id, settled.escrow_id) for state in ("final", "settled")
    ]


def test_what_was_taken_is_confirmed_by_the_chain_when_it_is_reconciled(chain, shop, demand, monkeypatch):
    answer = demand(shop.requirements())
    shop.visit(answer.json()["paymentPayload"])
    settled = wait_for(chain, payment_of(answer), PaymentStatus.SETTLED)
    Payment.objects.filter(pk=settled.pk).update(settled_at=settled.created_at.replace(year=2024))

    (found,) = [one for one in reconcile(NETWORK, chain.chain) if one.asset == "USDC"]

    assert found.receipts_checked >= 1
    assert found.unconfirmed == []


def test_the_same_payload_buys_one_page(chain, shop, demand, payee):
    payload = demand(shop.requirements()).json()["paymentPayload"]

    pages = [shop.visit(payload).status_code for _ in range(2)]

    assert pages == [200, 402]
    assert chain.balance_of(payee.address) == PRICE


def test_a_key_is_replayed_byte_by_byte_and_belongs_to_this_endpoint(shop, demand, api, agent, payee):
    wanted = shop.requirements()
    first, again = demand(wanted, "the key"), demand(wanted, "the key")
    body = {"agentId": agent.id, "service": payee.id, "amount": "1.25", "asset": "USDC", "reason": "A report"}

    submitted = api.pay(body, "the key")

    assert again.content == first.content
    assert again["Idempotent-Replayed"] == "true"
    assert Payment.objects.filter(agent=agent).count() == 1
    assert submitted.status_code == 409


def test_what_the_payee_does_not_take_is_given_back_after_its_time(chain, demand, agent, payee):
    with open_shop(chain, payee.address, amount=PRICE, timeout_s=10) as shop:
        answer = demand(shop.requirements())
        assert answer.status_code == 201
        assert chain.give_back() == 0

        failed = wait_for(chain, payment_of(answer), PaymentStatus.FAILED)

        assert shop.visit(answer.json()["paymentPayload"]).status_code == 402
    assert failed.failure_reason == "The payee did not take it before its authorization expired."
    assert Agent.objects.get(pk=agent.pk).balance == 1000
    assert chain.balance_of(payee.address) == 0
    assert problems_of(agent) == []
