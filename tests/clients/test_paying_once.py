"""One call of `pay` is one payment, whatever dies on the way: answers, web servers, the policy signer."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta

import pytest
from allowance_client import errors
from django.db import connection, transaction

from ledger.models import LogEntry
from payments.models import ChainState, Payment
from policy.parents import lock_agent
from tests.clients.cutting import CuttingProxy, at_the_head, in_the_middle
from tests.support.factories import new_name
from tests.support.invariants import check_agent
from tests.support.kills import wait_until
from tests.support.localnets import EVM
from tests.support.servers import Servers

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.long(50)]


def paid_once(customer):
    """Return the only payment of the agent, of which the books agree."""
    payment = Payment.objects.get(agent=customer.agent)
    check_agent(customer.agent.id)
    return payment


@contextmanager
def paying(allowance, customer, **options):
    """Pay in another thread meanwhile; gives its future."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(allowance.pay, **customer.wanted, **options)


@pytest.mark.parametrize("cut", [None, at_the_head, in_the_middle], ids=["no answer", "headers alone", "half of it"])
def test_a_payment_whose_answers_are_lost_is_paid_once(servers, open_client, customer, cut):
    with CuttingProxy(servers.urls[0], cut, times=3) as proxy:
        allowance = open_client(proxy.url, customer.key, customer.agent.id)

        payment = allowance.pay(**customer.wanted)

        assert len(proxy.sent) == 4
        assert len(set(proxy.sent)) == 1
        assert proxy.sent[0][0] == payment.idempotency_key
    assert payment.is_replay
    assert payment.id == paid_once(customer).id


def test_after_lost_patience_the_same_key_finds_the_payment(servers, open_client, customer):
    with CuttingProxy(servers.urls[0], None, times=1) as proxy:
        impatient = open_client(proxy.url, customer.key, customer.agent.id, patience_s=0)
        with pytest.raises(errors.NoAnswer, match="Nothing is known") as raised:
            impatient.pay(**customer.wanted)
        patient = open_client(servers.urls[1], customer.key, customer.agent.id)

        payment = patient.pay(**customer.wanted, idempotency_key=raised.value.idempotency_key)

    assert payment.is_replay
    assert payment.id == paid_once(customer).id


def test_a_web_server_that_is_killed_while_it_decides_has_the_payment_paid_once(open_client, customer):
    with Servers() as servers:
        allowance = open_client(servers.urls[0], customer.key, customer.agent.id)
        with paying(allowance, customer) as future:
            with transaction.atomic():
                lock_agent(customer.agent.id)
                wait_until(waits_for_a_lock, "the decision waits for the agent")
                servers.kill("web-1")
            servers.again("web-1")
            payment = future.result(timeout=60)

    assert payment.id == paid_once(customer).id


def test_a_web_server_that_is_killed_before_it_answers_has_the_payment_paid_once(open_client, customer):
    with Servers() as servers:
        allowance = open_client(servers.urls[0], customer.key, customer.agent.id)
        with paying(allowance, customer, wait_s=10) as future:
            wait_until(Payment.objects.filter(agent=customer.agent).exists, "the payment is decided")
            servers.kill("web-1")
            servers.again("web-1")
            payment = future.result(timeout=120)

    assert payment.is_replay
    assert payment.id == paid_once(customer).id


def test_while_nothing_can_be_co_signed_the_client_waits_and_then_pays_once(servers, open_client, customer):
    allowance = open_client(servers.urls[0], customer.key, customer.agent.id)
    with paying(allowance, customer) as future:
        with out_of_service():
            blocked = LogEntry.objects.filter(agent=customer.agent, rule="policy_signer_available")
            wait_until(lambda: blocked.exists() or future.done(), "the payment is refused")
        payment = future.result(timeout=60)

    assert not payment.is_replay
    assert payment.id == paid_once(customer).id


def test_impatience_while_nothing_can_be_co_signed_leaves_the_key_unused(servers, open_client, customer):
    key = new_name("key")
    allowance = open_client(servers.urls[0], customer.key, customer.agent.id, patience_s=0)
    with out_of_service(), pytest.raises(errors.PolicySignerUnavailable) as raised:
        allowance.pay(**customer.wanted, idempotency_key=key)

    assert (raised.value.retry, raised.value.idempotency_key) == ("same_key", key)
    assert raised.value.retry_after_s is not None
    assert not allowance.pay(**customer.wanted, idempotency_key=key).is_replay
    paid_once(customer)


@contextmanager
def out_of_service():
    """Let the chain's state be too old to prepare by: nothing is co-signed, and the API answers 503."""
    states = ChainState.objects.filter(chain=EVM.caip2)
    (seen_at,) = states.values_list("observed_at", flat=True)
    states.update(observed_at=seen_at - timedelta(days=2))
    try:
        yield
    finally:
        states.update(observed_at=seen_at)


def waits_for_a_lock():
    """Tell whether anybody waits for a lock. What pg_stat_activity shows stays the same within a transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        (count,) = cursor.fetchone()
    return count
