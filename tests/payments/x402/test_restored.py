"""A restored backup that knows nothing of what a payee took: found on the chain, and never paid again."""

import json

import pytest
from django.db import transaction

from ledger.receipts import receipt
from payments.management.outflow_files import read_statements
from payments.models import ChainState, Outflow, Payment
from payments.reconciling.outflow_owners import Owner, Owners
from payments.settling.chain_switch import start_signing_on
from tests.chains.adapter.anvil_node import has_program
from tests.payments.x402.stage import NETWORK, open_shop
from tests.support.answers import error_of
from tests.support.javascript import needs_node

pytestmark = [needs_node, has_program, pytest.mark.long(60)]
PRICE = 1_250_000


@pytest.fixture
def request_of_ours(api, agent, payee):
    """Return a function that asks for the same money, to be submitted by us."""
    body = {"agentId": agent.id, "service": payee.id, "amount": "1.25", "asset": "USDC", "reason": "A report"}
    return lambda key: api.pay(body, key)


@pytest.mark.parametrize("by", ["x402", "request"])
def test_a_key_whose_payment_was_taken_and_forgotten_is_not_paid_again(chain, demand, payee, request_of_ours, by):
    with open_shop(chain, payee.address, amount=PRICE) as shop:
        wanted = shop.requirements()
        before = transaction.savepoint()
        answer = demand(wanted, "the key")
        escrow_id = Payment.objects.get(pk=answer.json()["id"]).escrow_id
        assert shop.visit(answer.json()["paymentPayload"]).status_code == 200
    transaction.savepoint_rollback(before)
    chain.rpc("anvil_mine", hex(3))

    chain.look()

    found = Outflow.objects.get(chain=NETWORK)
    assert (found.escrow_id, found.recipient) == (escrow_id, payee.address)
    assert ChainState.objects.get(chain=NETWORK).stopped_reason
    start_signing_on(NETWORK, by="test", reason="It was looked at.")
    again = demand(wanted, "the key") if by == "x402" else request_of_ours("the key")
    error_of(again, 503, "policy_signer_unavailable")
    assert not Payment.objects.filter(chain=NETWORK).exists()
    assert chain.balance_of(payee.address) == PRICE


def test_an_exported_entry_proves_whose_payment_it_was_that_was_taken_and_forgotten(
    chain, agent, demand, payee, tmp_path
):
    with open_shop(chain, payee.address, amount=PRICE) as shop:
        before = transaction.savepoint()
        answer = demand(shop.requirements())
        exported = receipt(Payment.objects.get(pk=answer.json()["id"]).entry)
        assert shop.visit(answer.json()["paymentPayload"]).status_code == 200
    transaction.savepoint_rollback(before)
    chain.rpc("anvil_mine", hex(3))
    chain.look()
    found = Outflow.objects.get(chain=NETWORK)
    (tmp_path / "log.jsonl").write_text(json.dumps(exported))

    owners = Owners([found])
    for statement in read_statements(str(tmp_path / "log.jsonl")):
        owners.hear(statement)

    assert owners.find(found) == Owner(agent.id, "log.jsonl, line 1", is_proven=True)
