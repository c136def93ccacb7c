"""A 402 whose payment a person has to approve: the clients say so, and pay it once with the same key when they have."""

import base64
import json
import subprocess
from datetime import timedelta
from decimal import Decimal

import httpx
import pytest
from allowance_client import Allowance, PayingTransport, errors

from foundation.kernel.times import utc_now
from ledger.models import Hold
from payments.models import Payment
from tests.chains.adapter.anvil_node import has_program
from tests.clients.mcp.talking import over_stdio, tell
from tests.payments.x402.stage import open_shop
from tests.support.answered_holds import approve, decline
from tests.support.factories import make_agent
from tests.support.javascript import needs_node
from workshop.localnet.folder import ROOT

pytestmark = [needs_node, has_program, pytest.mark.long(60)]
PRICE = 1_250_000


@pytest.fixture
def agent(chain):
    return make_agent(approval_above=Decimal(1))


@pytest.fixture
def shop(chain, payee):
    with open_shop(chain, payee.address, amount=PRICE) as opened:
        yield opened


@pytest.fixture
def visit(chain, api_url, key, shop, payee):
    chain.look()

    def visit(**options):
        with Allowance(api_url, key, patience_s=0) as allowance:
            transport = PayingTransport(allowance, {shop.url: payee.id}, most_units=PRICE, **options)
            with httpx.Client(transport=transport, timeout=60) as http:
                return http.get(f"{shop.url}/report", extensions={"idempotency_key": "report-42"})

    return visit


def held_of(agent):
    return Hold.objects.get(agent=agent).id


@pytest.mark.parametrize("seconds", [0, 1])
def test_the_transport_says_that_a_person_is_asked_and_pays_once_when_they_have_approved(
    visit, agent, chain, payee, seconds
):
    for _ in range(2):
        with pytest.raises(errors.ApprovalPending) as raised:
            visit(wait_until_decided_s=seconds)
    assert (raised.value.payment.id, raised.value.idempotency_key) == (held_of(agent), "report-42")
    approve(held_of(agent))

    page = visit()

    assert page.json() == {"report": "what was paid for"}
    assert page.extensions["allowance_payment"].id == held_of(agent) == Payment.objects.get(agent=agent).id
    assert chain.balance_of(payee.address) == PRICE


def test_the_transport_raises_that_nobody_has_approved_it(visit, agent):
    with pytest.raises(errors.ApprovalPending):
        visit()
    decline(held_of(agent))

    with pytest.raises(errors.ApprovalDeclined, match="Too dear"):
        visit(wait_until_decided_s=5)


def test_typescripts_client_says_that_a_person_is_asked_and_pays_once_when_they_have_approved(
    *, api_url, key, agent, shop, payee, chain, compiled_client
):
    chain.look()
    told = {
        "client": str(compiled_client), "api": api_url, "key": key, "agent": agent.id, "dies": False,
        "services": {shop.url: payee.id}, "url": f"{shop.url}/report", "mostUnits": PRICE, "purchase": "report-42",
    }  # fmt: skip

    def fetch():
        command = ["node", str(ROOT / "tests/payments/x402/fetch.mjs")]
        done = subprocess.run(command, input=json.dumps(told), capture_output=True, text=True, check=True, timeout=120)
        return json.loads(done.stdout)

    waits = fetch()
    approve(held_of(agent))
    page = fetch()

    assert waits == {"error": "NotDecidedYet", "idempotencyKey": "report-42", "payment": held_of(agent)}
    assert (page["status"], page["paid"]) == (200, [held_of(agent)])
    assert Payment.objects.get(agent=agent).id == held_of(agent)
    assert chain.balance_of(payee.address) == PRICE


@pytest.fixture
def ask(chain, shop, api_url, key, payee):
    """A model's call of its tool: the same one each time."""
    chain.look()
    asked = {"service": payee.id, "payment_required": shop.visit().headers["PAYMENT-REQUIRED"], "reason": "A report"}
    return lambda: tell(over_stdio(api_url, key), lambda model: model.call("pay_402", **asked))


def payload_of(said):
    return json.loads(base64.b64decode(said.content["payment_signature"]))


def test_a_model_is_told_to_wait_and_gets_what_the_payee_is_sent_by_the_same_call_once_it_is_approved(
    ask, chain, shop, agent, payee
):
    waits = [ask(), ask()]
    approve(held_of(agent))
    paid = ask()

    for said in waits:
        assert (said.status, said.payment_id) == ("waiting_for_approval", held_of(agent))
        assert "call pay_402 again with exactly the same arguments" in said.content["what_to_do"]
        assert "payment_signature" not in said.content
    assert (paid.status, paid.payment_id) == ("already_paid", held_of(agent))
    assert shop.visit(payload_of(paid)).status_code == 200
    assert chain.balance_of(payee.address) == PRICE


def test_a_model_whose_payment_is_approved_the_day_after_gets_what_the_payee_is_sent_and_nobody_is_asked_again(
    ask, chain, shop, agent, payee
):
    waits = ask()
    Hold.objects.filter(agent=agent).update(created_at=utc_now() - timedelta(hours=30))
    approve(held_of(agent))

    approved = ask()
    page = shop.visit(payload_of(approved))
    taken = ask()  # nobody has found on the chain yet that the payee has it

    assert (waits.status, page.status_code) == ("waiting_for_approval", 200)
    assert [(one.status, one.payment_id) for one in (approved, taken)] == [("already_paid", held_of(agent))] * 2
    assert Payment.objects.get(agent=agent).id == held_of(agent)
    assert chain.balance_of(payee.address) == PRICE
