"""Payees whose account matters: whether they are paid depends on the account, and on what the chain says of them."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from django.conf import settings

from allowance.environment.keys import held_key
from allowance.kernel.assets import Asset
from allowance.kernel.errors import OperationRefused, PolicySignerUnavailable
from allowance.kernel.times import utc_now
from chains.evm.adapter import EvmChain
from ledger.models import LogEntry
from payments.deciding.operations import request_payment
from payments.models import ChainState, Payment, Settlement
from payments.reconciling.watcher import observe
from policy.models import Agent
from services.models import Service
from services.vetting import find_objection
from tests.support.factories import make_agent, new_address, new_name
from tests.support.fake_chain import FakeChain, make_fake_chain
from tests.support.local_ids import LOCALNET
from tests.support.payment_requests import environment_of, make_request
from tests.support.rent_chain import LEAST_LAMPORTS, WHY, RentChain, make_sol_service, see

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)
TOO_LITTLE, ENOUGH = "0.000890879", "0.00089088"


@pytest.fixture
def chain() -> RentChain:
    return RentChain(make_fake_chain(relayers=1, has_nonces=False).name, has_nonces=False)


@pytest.fixture
def agent() -> Agent:
    return make_agent(asset=Asset.SOL)


@pytest.fixture
def service(chain: RentChain) -> Service:
    return make_sol_service(chain)


def assert_nothing_moved(agent: Agent) -> None:
    assert Agent.objects.get(pk=agent.pk).balance == 1000
    assert not Payment.objects.filter(agent=agent).exists()


# --- The money path ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("amount", "lamports", "is_paid"),
    [
        (TOO_LITTLE, None, False),
        (ENOUGH, None, True),
        (TOO_LITTLE, 0, False),
        ("0.000000001", LEAST_LAMPORTS, True),
        ("0.000000001", LEAST_LAMPORTS - 1, True),
        ("0.000000001", LEAST_LAMPORTS - 2, False),
    ],
)
def test_what_the_watcher_saw_of_a_payee_decides_whether_it_can_be_paid(chain, agent, amount, lamports, is_paid):
    service = make_sol_service(chain)
    if lamports is not None:
        see(chain, service.address, lamports)
    request = make_request(agent, service, amount)

    if is_paid:
        request_payment(request, environment_of(chain))
        assert Agent.objects.get(pk=agent.pk).balance == 1000 - Decimal(amount)
    else:
        with pytest.raises(PolicySignerUnavailable, match=WHY):
            request_payment(request, environment_of(chain))
        assert_nothing_moved(agent)


def test_a_payee_that_cannot_be_paid_so_is_a_logged_503_that_moves_nothing(chain, agent, service):
    with pytest.raises(PolicySignerUnavailable) as refused:
        request_payment(make_request(agent, service, TOO_LITTLE), environment_of(chain))

    entry = LogEntry.objects.get(agent=agent)
    assert (entry.result, entry.rule, entry.idempotency_key) == ("blocked", "policy_signer_available", None)
    assert (entry.payment_id, entry.tx, entry.spent_total) == (None, None, 0)
    assert entry.explanation == {"message": WHY}
    assert refused.value.details["logId"] == entry.id
    assert not Settlement.objects.filter(chain=chain.name).exists()
    assert_nothing_moved(agent)


@pytest.mark.parametrize(
    ("age", "is_paid"),
    [(MINUTE, True), (MINUTE + timedelta(milliseconds=1), False), (-timedelta(days=30), False)],
    ids=["at the limit", "above", "in the future"],
)
def test_what_was_seen_of_a_payee_too_long_ago_or_in_the_future_counts_as_not_seen(chain, agent, service, age, is_paid):
    now = utc_now().replace(microsecond=0) + timedelta(seconds=1)
    ChainState.objects.filter(chain=chain.name).update(observed_at=now)
    see(chain, service.address, LEAST_LAMPORTS, at=now - age)
    request, environment = make_request(agent, service, TOO_LITTLE), environment_of(chain, now, MINUTE)

    if is_paid:
        assert request_payment(request, environment).entry.result == "approved"
    else:
        with pytest.raises(PolicySignerUnavailable, match=WHY):
            request_payment(request, environment)
        assert_nothing_moved(agent)


def test_what_was_seen_of_another_account_does_not_count(chain, agent, service):
    see(chain, new_address(), LEAST_LAMPORTS)
    see(make_fake_chain(), service.address, LEAST_LAMPORTS)

    with pytest.raises(PolicySignerUnavailable, match=WHY):
        request_payment(make_request(agent, service, TOO_LITTLE), environment_of(chain))


def test_a_payment_that_cannot_be_prepared_is_told_as_the_chain_says_it(agent):
    chain = make_fake_chain(relayers=1, has_nonces=False)
    service = make_sol_service(chain)
    chain.is_unprepared = True

    with pytest.raises(PolicySignerUnavailable, match="It cannot be prepared now"):
        request_payment(make_request(agent, service), environment_of(chain))

    assert_nothing_moved(agent)
    chain.is_unprepared = False
    assert request_payment(make_request(agent, service), environment_of(chain)).entry.result == "approved"


def test_over_http_it_is_a_503_that_explains_itself_and_the_same_key_pays_once_the_payee_is_ready(
    api, chain, agent, service, monkeypatch
):
    monkeypatch.setattr("payments.api.views.served_chains", lambda: {chain.name: chain})
    body = {"agentId": agent.id, "service": service.id, "amount": TOO_LITTLE, "asset": "SOL", "reason": "A test"}
    key = new_name("key")

    refused = api.pay(body, key)
    again = api.pay(body, key)
    assert_nothing_moved(agent)
    # Somebody else pays into the account, and the watcher looks.
    chain.payees[service.address] = {"lamports": 1}
    observe(chain.name, chain)
    paid = api.pay(body, key)
    replayed = api.pay(body, key)

    for response in (refused, again):
        error = response.json()["error"]
        assert (response.status_code, "Idempotent-Replayed" in response.headers) == (503, False)
        assert (error["code"], error["rule"], error["message"]) == (
            "policy_signer_unavailable",
            "policy_signer_available",
            WHY,
        )
        assert response["Retry-After"]
    assert (paid.status_code, "Idempotent-Replayed" in paid.headers) == (201, False)
    assert (replayed.status_code, replayed.content) == (201, paid.content)
    entries = LogEntry.objects.filter(agent=agent).order_by("id")
    assert [(entry.result, entry.idempotency_key) for entry in entries] == [
        ("blocked", None),
        ("approved", key),
    ]
    assert Agent.objects.get(pk=agent.pk).balance == 1000 - Decimal(TOO_LITTLE)
    assert [row.nonce for row in Settlement.objects.filter(chain=chain.name)] == [None]


# --- Asking the chain about a payee -----------------------------------------------------------------------------------
def test_an_objection_of_the_chain_is_passed_on(chain, monkeypatch):
    monkeypatch.setattr("services.vetting.served_chains", lambda: {"another": FakeChain("another"), chain.name: chain})
    chain.objections["here"] = "It is a mint."

    assert find_objection(chain.name, "here") == "It is a mint."
    assert find_objection(chain.name, "there") is None
    assert find_objection("another", "here") is None


def test_a_chain_that_cannot_be_asked_is_a_refusal_not_a_yes(chain, monkeypatch, caplog):
    monkeypatch.setattr("services.vetting.served_chains", lambda: {chain.name: chain})
    chain.is_away = True

    with pytest.raises(OperationRefused, match="here cannot be checked on its chain now, try again: No node"):
        find_objection(chain.name, "here")

    assert f"here on {chain.name} cannot be checked" in caplog.text


def test_on_an_evm_chain_no_node_is_asked(monkeypatch):
    away = EvmChain(replace(settings.CHAINS[LOCALNET], rpc_urls=("http://127.0.0.1:9",)), held_key("RELAYER_SEED"))
    monkeypatch.setattr("services.vetting.served_chains", lambda: {LOCALNET: away})

    assert find_objection(LOCALNET, new_address()) is None
