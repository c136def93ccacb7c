"""Both faces of the client against real web servers, each with a real key of an agent."""

import threading
from datetime import timedelta
from decimal import Decimal

import pytest
from allowance_client import errors, verify_receipt, verify_receipts
from django.db import connection

from foundation.kernel.times import utc_now
from ledger.models import LogEntry
from payments.models import Payment
from policy.operations import pause_agent, resume_agent
from tests.clients.conftest import Customer
from tests.support.factories import make_agent, make_api_key, make_service, new_name
from tests.support.localnets import EVM, SOLANA
from tests.support.made_ends import fail_unsent
from tests.support.servers import Servers

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.long(40)]


@pytest.fixture
def allowance(servers, open_client, customer):
    return open_client(servers.urls[0], customer.key, customer.agent.id)


def later(act, *arguments):
    """Let something happen soon, as another process would do it."""

    def run():
        try:
            act(*arguments)
        finally:
            connection.close()

    threading.Timer(0.5, run).start()


def test_a_payment_is_made_with_nothing_but_what_it_is_for(allowance, customer):
    payment = allowance.pay(service=customer.service.id, amount=Decimal("0.50"), reason="A test")

    assert (payment.status, payment.amount, payment.asset) == ("approved", Decimal("0.50"), "USDC")
    assert Payment.objects.get(pk=payment.id).agent_id == customer.agent.id
    assert not payment.is_replay


def test_metadata_and_reason_arrive_as_they_were_given(allowance, customer):
    wanted = {**customer.wanted, "reason": "Wetter für Øslo ☂", "metadata": {"order": 1, "deep": [{"x": 0.5}]}}

    state = allowance.payment(allowance.pay(**wanted).id)

    assert (state.reason, state.metadata) == (wanted["reason"], wanted["metadata"])


def test_the_same_key_gives_the_same_payment(allowance, customer):
    key = new_name("key")

    first, again = (allowance.pay(**customer.wanted, idempotency_key=key) for _ in range(2))

    assert (again.id, again.raw, again.is_replay) == (first.id, first.raw, True)
    assert Payment.objects.filter(agent=customer.agent).count() == 1
    with pytest.raises(errors.IdempotencyConflict):
        allowance.pay(**{**customer.wanted, "amount": "0.51"}, idempotency_key=key)


def test_the_budget_is_that_of_the_agent(allowance, customer):
    allowance.pay(**customer.wanted)

    budget = allowance.budget()

    assert (budget.agent_id, budget.status, budget.asset) == (customer.agent.id, "active", "USDC")
    assert (budget.balance, budget.spent_today) == (Decimal("999.50"), Decimal("0.50"))


def test_a_refusal_by_a_limit_has_its_figures(allowance, customer):
    with pytest.raises(errors.BudgetExceeded) as raised:
        allowance.pay(**{**customer.wanted, "amount": "10.01"})

    error = raised.value
    assert (error.limit, error.requested, error.allowed_at) == (Decimal(10), Decimal("10.01"), None)
    assert (error.rule, error.status, error.retry) == ("under_max_payment", 422, "new_key")
    assert LogEntry.objects.get(pk=error.log_id).result == "blocked"
    assert error.request_id
    assert error.policy_revision == "polrev_1"


def test_a_refusal_by_the_day_says_when_it_ends(servers, open_client):
    customer = Customer(daily_limit="1")
    allowance = open_client(servers.urls[0], customer.key, customer.agent.id)
    allowance.pay(**customer.wanted)
    allowance.pay(**customer.wanted)

    with pytest.raises(errors.BudgetExceeded) as raised:
        allowance.pay(**customer.wanted, wait_until_allowed_s=60)

    assert (raised.value.spent, raised.value.remaining) == (Decimal(1), Decimal(0))
    allowed_at, retry_after_s = raised.value.allowed_at, raised.value.retry_after_s
    assert allowed_at is not None
    assert retry_after_s is not None
    assert timedelta(hours=23) < allowed_at - utc_now() <= timedelta(hours=24)
    assert 23 * 3600 < retry_after_s <= 24 * 3600


def test_a_paused_agent_s_key_is_used_up_and_a_new_one_pays_once_it_is_resumed(allowance, customer):
    key = new_name("key")
    pause_agent(customer.agent.id, by="test")
    with pytest.raises(errors.AgentPaused) as raised:
        allowance.pay(**customer.wanted, idempotency_key=key)
    resume_agent(customer.agent.id, by="test")

    assert (raised.value.retry, raised.value.is_replay) == ("new_key", False)
    with pytest.raises(errors.AgentPaused) as again:
        allowance.pay(**customer.wanted, idempotency_key=key)
    assert (again.value.is_replay, again.value.log_id) == (True, raised.value.log_id)
    assert allowance.pay(**customer.wanted).status == "approved"


def test_other_refusals_have_their_classes(servers, open_client, customer):
    allowance = open_client(servers.urls[0], customer.key, customer.agent.id)
    with pytest.raises(errors.ServiceNotApproved):
        allowance.pay(**{**customer.wanted, "service": make_service(approved=False).id})
    with pytest.raises(errors.InvalidRequest) as raised:
        allowance.pay(**{**customer.wanted, "amount": "0.0000001"})
    ((param, problem),) = raised.value.fields
    assert param == "amount"
    assert str(raised.value) == f"400 invalid_request: {raised.value.message} amount: {problem}"
    with pytest.raises(errors.PaymentNotFound):
        allowance.payment("pay_" + "0" * 26)
    with pytest.raises(errors.InsufficientScope):
        allowance.budget(agent_id=make_agent().id)
    with pytest.raises(errors.InvalidApiKey):
        open_client(servers.urls[0], "alw_nobody", customer.agent.id).budget()


def test_waiting_ends_when_the_payment_is_settled(allowance, customer):
    payment = allowance.pay(**customer.wanted)
    later(EVM.drain)

    state = allowance.wait_settled(payment.id)

    assert (state.status, state.final_tx) == ("settled", payment.tx)
    assert state.settled_at is not None
    assert [one.state for one in state.transactions] == ["final"]


def test_waiting_ends_when_the_payment_fails(allowance, customer):
    payment = allowance.pay(**{**customer.wanted, "service": SOLANA.make_service().id})
    later(fail_unsent, payment.id)

    with pytest.raises(errors.PaymentFailed, match="Reverted") as raised:
        allowance.wait_settled(payment.id)

    assert raised.value.payment.status == "failed"


def test_waiting_ends_with_the_time(allowance, customer):
    payment = allowance.pay(**customer.wanted)

    with pytest.raises(errors.SettlementTimeout, match="may settle later") as raised:
        allowance.wait_settled(payment.id, timeout_s=1)

    assert raised.value.payment.id == payment.id


def test_the_log_is_read_over_all_pages_and_its_receipts_verify(allowance, customer):
    paid = [allowance.pay(**{**customer.wanted, "amount": "0.01"}).id for _ in range(28)]
    with pytest.raises(errors.BudgetExceeded):
        allowance.pay(**{**customer.wanted, "amount": "11"})

    entries, keys = allowance.logs(), allowance.public_keys()

    assert [entry.payment_id for entry in entries] == [None, *reversed(paid)]
    assert verify_receipts(entries, keys, from_the_first=True) == 29
    assert [entry.id for entry in allowance.logs("blocked")] == [entries[0].id]
    with pytest.raises(errors.ReceiptInvalid, match="missing"):
        verify_receipts(entries[:5] + entries[6:], keys)
    with pytest.raises(errors.ReceiptInvalid, match="changed"):
        verify_receipt({**entries[0].raw, "amount": "1.00"}, keys)


def test_a_payee_is_registered(servers, open_client):
    allowance = open_client(servers.urls[0], make_api_key(scopes=["services"]))
    wanted = {"id": new_name("shop"), "name": "Shop", "recipient": f"evm-localnet:0x{'ab' * 20}", "asset": "USDC"}

    service = allowance.register_service(**wanted)

    assert (service.id, service.status) == (wanted["id"], "pending_approval")


def pay_until_refused(allowance, wanted):
    """Pay until the limit; a minute that ends in between begins the count anew."""
    for _ in range(10):
        allowance.pay(**wanted)


def test_a_rate_limit_beyond_the_patience_leaves_the_key_unused(servers, open_client, customer):
    with Servers(variables=[{"RATE_LIMIT_PER_MINUTE": "1"}]) as strict:
        allowance = open_client(strict.urls[0], customer.key, customer.agent.id, patience_s=0)
        with pytest.raises(errors.RateLimited) as raised:
            pay_until_refused(allowance, customer.wanted)

    assert raised.value.retry_after_s in range(1, 61)
    assert raised.value.retry == "same_key"
    allowance = open_client(servers.urls[0], customer.key, customer.agent.id)
    payment = allowance.pay(**customer.wanted, idempotency_key=raised.value.idempotency_key)
    assert not payment.is_replay


def test_nobody_reads_the_api_key_out_of_a_client_or_its_errors(servers, open_client, customer, caplog):
    caplog.set_level("DEBUG")
    allowance = open_client(servers.urls[0], customer.key, customer.agent.id)
    allowance.pay(**customer.wanted)
    with pytest.raises(errors.PaymentNotFound) as raised:
        allowance.payment("pay_nobody")

    told = [repr(allowance.client), str(allowance.client), repr(raised.value), repr(vars(raised.value)), caplog.text]
    assert [text for text in told if customer.key in text] == []
