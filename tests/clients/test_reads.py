"""Asking before paying, and reading afterwards, by both faces of the client against a real web server."""

from decimal import Decimal

import pytest
from allowance_client import errors, verify_proof, verify_receipt

from foundation.kernel.times import utc_now
from payments.models import Payment
from tests.clients.conftest import Customer
from tests.support.factories import make_api_key, make_service, new_name
from tests.support.localnets import EVM

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.long(30)]


@pytest.fixture
def allowance(servers, open_client, customer):
    """A client that knows no more than its key."""
    return open_client(servers.urls[0], customer.key)


def test_the_agent_and_the_asset_go_without_saying(allowance, customer):
    payment = allowance.pay(service=customer.service.id, amount="0.50", reason="A test")

    assert Payment.objects.get(pk=payment.id).agent_id == customer.agent.id
    assert allowance.budget().agent_id == customer.agent.id


def test_a_key_tells_what_it_is(allowance, customer):
    me = allowance.me()

    assert (me.agent_id, me.expires_at) == (customer.agent.id, None)
    assert "payments" in me.scopes
    assert me.requests_per_minute > 0


def test_a_key_of_no_agent_needs_one_to_be_named(servers, open_client, customer):
    with pytest.raises(errors.AgentRequired, match="agent_id"):
        open_client(servers.urls[0], make_api_key()).pay(**customer.wanted)


def test_what_would_be_decided_is_told_with_every_rule_and_nothing_is_paid(allowance, customer):
    fits = allowance.evaluate(service=customer.service.id, amount="0.50", reason="A test")
    exceeds = allowance.evaluate(service=customer.service.id, amount=Decimal("10.01"), reason="A test")

    assert fits.is_approved
    assert (fits.code, fits.allowed_at) == (None, None)
    assert (exceeds.is_approved, exceeds.code, exceeds.rule) == (False, "budget_exceeded", "under_max_payment")
    (limit,) = [one for one in exceeds.rules if one.rule == "under_max_payment"]
    assert (limit.passed, limit.limit, limit.requested, limit.headroom) == (False, 10, Decimal("10.01"), 0)
    assert not Payment.objects.filter(agent=customer.agent).exists()


def test_payments_are_found_by_what_is_known_of_them(allowance, customer):
    began, keys = utc_now(), [new_name("key") for _ in range(28)]
    ids = [allowance.pay(**{**customer.wanted, "amount": "0.01"}, idempotency_key=key).id for key in keys]

    assert [one.id for one in allowance.payments()] == ids[::-1]
    assert allowance.payment(ids[0]).escrow_id == Payment.objects.get(pk=ids[0]).escrow_id
    assert [one.id for one in allowance.payments(idempotency_key=keys[3])] == [ids[3]]
    found = allowance.payments(service=customer.service.id, status="approved", amount=Decimal("0.010"), since=began)
    assert len(found) == 28
    assert allowance.payments(status="settled") == []


def test_the_services_that_can_be_paid_are_listed(servers, open_client):
    customer = Customer()
    other = make_service(approved=False)
    allowance = open_client(servers.urls[0], customer.key)

    found = [one.id for one in allowance.services()]

    assert customer.service.id in found
    assert other.id not in found
    assert found == sorted(found)
    assert allowance.service(customer.service.id).status == "approved"
    with pytest.raises(errors.ServiceNotFound) as raised:
        allowance.service(other.id)
    assert isinstance(raised.value, errors.NotFound)  # as programs catch it that were written before


def test_one_entry_of_the_log_is_a_receipt(allowance, customer):
    payment = allowance.pay(**customer.wanted)

    entry = allowance.log(allowance.payment(payment.id).log_id)

    assert (entry.payment_id, entry.result, entry.amount) == (payment.id, "approved", Decimal("0.50"))
    verify_receipt(entry, allowance.public_keys())
    with pytest.raises(errors.LogEntryNotFound):
        allowance.log("log_" + "0" * 26)


def test_a_decision_is_found_by_its_key(allowance, customer):
    key = new_name("key")
    allowance.pay(**customer.wanted)
    with pytest.raises(errors.BudgetExceeded) as refused:
        allowance.pay(**{**customer.wanted, "amount": "10.01"}, idempotency_key=key)

    assert [one.id for one in allowance.logs(idempotency_key=key)] == [refused.value.log_id]
    assert [one.id for one in allowance.logs("approved", idempotency_key=key)] == []


def test_a_mistyped_agent_is_not_told_to_have_paid_nothing(servers, open_client, customer):
    allowance = open_client(servers.urls[0], make_api_key())

    for read in (allowance.payments, allowance.logs, allowance.services):
        with pytest.raises(errors.AgentNotFound):
            read(agent_id=f"{customer.agent.id}x")


@pytest.mark.parametrize("agent_id", [None, "another"])
def test_an_empty_variable_does_not_come_to_mean_another_agent(servers, open_client, agent_id):
    allowance = open_client(servers.urls[0], make_api_key(), agent_id)

    for read in (allowance.budget, allowance.payments, allowance.logs, allowance.services):
        with pytest.raises(ValueError, match="not empty"):
            read(agent_id="")
    with pytest.raises(ValueError, match="not empty"):
        allowance.pay(service="s", amount="1", asset="USDC", reason="A test", agent_id="")
    with pytest.raises(ValueError, match="not empty"):
        open_client(servers.urls[0], make_api_key(), "")


def test_a_payee_can_verify_the_proof_of_a_settled_payment(allowance, customer):
    payment = allowance.pay(**customer.wanted)
    early = allowance.proof(payment.id)
    EVM.drain()
    proof, keys = allowance.proof(payment.id), allowance.public_keys()

    claims = verify_proof(proof.proof, keys, service=customer.service.id)

    assert (claims.payment_id, claims.amount, claims.tx) == (payment.id, Decimal("0.50"), payment.tx)
    assert claims.escrow_id == allowance.payment(payment.id).escrow_id
    assert claims.settled_at is not None
    with pytest.raises(errors.ProofInvalid, match="another service"):
        verify_proof(proof, keys, service="other")
    with pytest.raises(errors.ProofInvalid, match="approved, not settled"):
        verify_proof(early, keys, service=customer.service.id)
