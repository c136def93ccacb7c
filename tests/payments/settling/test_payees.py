"""Payees whose account matters: whether they are paid depends on the account, and on what the chain says of them."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from django.conf import settings

from chains.evm.adapter import EvmChain
from foundation.environment.keys import held_key
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused, PolicySignerUnavailable, ServiceNotPayable
from foundation.kernel.times import utc_now
from ledger.models import LogEntry
from payments.deciding.evaluating import evaluate_payment
from payments.deciding.operations import decide_together, request_payment
from payments.deciding.reading import LONGEST_WAIT_S
from payments.models import ChainState, PayeeState, Payment, Settlement
from payments.reconciling.watcher import observe
from policy.models import Agent
from services.models import Service
from services.vetting import find_objection
from tests.support.answers import error_of
from tests.support.factories import make_agent, new_address, new_name
from tests.support.fake_chain import FakeChain, make_fake_chain
from tests.support.local_ids import LOCALNET
from tests.support.payment_requests import environment_of, make_request
from tests.support.rent_chain import LEAST_LAMPORTS, NOT_SEEN, WHY, RentChain, make_sol_service, see

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
    ("amount", "lamports", "refusal"),
    [
        (TOO_LITTLE, None, PolicySignerUnavailable),
        (ENOUGH, None, None),
        (TOO_LITTLE, 0, ServiceNotPayable),
        (ENOUGH, 0, None),
        ("0.000000001", LEAST_LAMPORTS, None),
        ("0.000000001", LEAST_LAMPORTS - 1, None),
        ("0.000000001", LEAST_LAMPORTS - 2, ServiceNotPayable),
    ],
)
def test_what_the_watcher_saw_of_a_payee_decides_whether_it_can_be_paid(chain, agent, amount, lamports, refusal):
    service = make_sol_service(chain)
    if lamports is not None:
        see(chain, service.address, lamports)
    request = make_request(agent, service, amount)

    if refusal is None:
        request_payment(request, environment_of(chain))
        assert Agent.objects.get(pk=agent.pk).balance == 1000 - Decimal(amount)
    else:
        with pytest.raises(refusal, match=NOT_SEEN if lamports is None else WHY):
            request_payment(request, environment_of(chain))
        assert_nothing_moved(agent)


def test_a_payee_that_cannot_be_paid_so_is_a_logged_refusal_that_names_the_least_and_moves_nothing(
    chain, agent, service
):
    see(chain, service.address, 79)
    request = make_request(agent, service, TOO_LITTLE[:-2])

    with pytest.raises(ServiceNotPayable) as refused:
        request_payment(request, environment_of(chain))

    entry = LogEntry.objects.get(agent=agent)
    assert (entry.result, entry.rule, entry.idempotency_key) == ("blocked", "service_payable", request.idempotency_key)
    assert (entry.payment_id, entry.tx, entry.spent_total) == (None, None, 0)
    explanation = entry.explanation
    del explanation["request"]
    assert explanation == {"message": WHY, "limit": "0.000890801", "requested": "0.0008908"}
    assert refused.value.details == {
        "rule": "service_payable", "logId": entry.id, "policyRevision": "polrev_1",
        "limit": "0.000890801", "requested": "0.0008908",
    }  # fmt: skip
    assert not Settlement.objects.filter(chain=chain.name).exists()
    assert_nothing_moved(agent)


def test_a_limit_that_time_would_cure_is_not_waited_for_while_the_payee_cannot_be_paid(chain, service):
    agent = make_agent(asset=Asset.SOL, daily_limit="0.0009")
    other = make_sol_service(chain)
    see(chain, other.address, LEAST_LAMPORTS)
    see(chain, service.address, 0)
    request_payment(make_request(agent, other, TOO_LITTLE), environment_of(chain))

    evaluation = evaluate_payment(make_request(agent, service, TOO_LITTLE), environment_of(chain))

    assert evaluation.decision.rule.name == "service_payable"
    assert [*evaluation.decision.objections] == ["service_payable", "under_daily_limit"]
    assert evaluation.decision.explanation.waits_for == ()


@pytest.mark.parametrize("since", ["in the same batch", "on its way", "settled, and not looked at since"])
def test_what_a_payment_on_its_way_may_bring_about_is_waited_for(chain, agent, service, since):
    see(chain, service.address, 0)
    first, next_one = make_request(agent, service, ENOUGH), make_request(agent, service, "0.000000001")
    if since == "in the same batch":
        approved, refused = decide_together([first, next_one], environment_of(chain), wait_s=LONGEST_WAIT_S)
        assert isinstance(approved, LogEntry)
        assert isinstance(refused, LogEntry)
        assert (approved.result, refused.result, refused.rule) == ("approved", "blocked", "policy_signer_available")
        return
    request_payment(first, environment_of(chain))
    if since.startswith("settled"):
        Payment.objects.filter(agent=agent).update(status="settled", settled_at=utc_now())
    with pytest.raises(PolicySignerUnavailable, match=WHY):
        request_payment(next_one, environment_of(chain))

    PayeeState.objects.filter(chain=chain.name).update(observed_at=utc_now())
    Payment.objects.filter(agent=agent).update(status="settled", settled_at=utc_now() - MINUTE)
    with pytest.raises(ServiceNotPayable):
        request_payment(next_one, environment_of(chain))


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
        with pytest.raises(PolicySignerUnavailable, match=NOT_SEEN):
            request_payment(request, environment)
        assert_nothing_moved(agent)


def test_what_was_seen_of_another_account_does_not_count(chain, agent, service):
    see(chain, new_address(), LEAST_LAMPORTS)
    see(make_fake_chain(), service.address, LEAST_LAMPORTS)

    with pytest.raises(PolicySignerUnavailable, match=NOT_SEEN):
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


def test_over_http_a_payee_is_refused_for_ever_under_a_key_once_it_was_seen_and_paid_with_another_once_it_is_ready(
    api, chain, agent, service, monkeypatch
):
    monkeypatch.setattr("payments.environment.served_chains", lambda: {chain.name: chain})
    body = {"agentId": agent.id, "service": service.id, "amount": TOO_LITTLE, "asset": "SOL", "reason": "A test"}
    key, next_key = new_name("key"), new_name("key")

    unknown = api.pay(body, key)
    see(chain, service.address, 0)
    refused, again = (api.pay(body, key) for _ in range(2))
    assert_nothing_moved(agent)
    # Somebody else pays into the account, and the watcher looks.
    chain.payees[service.address] = {"lamports": 1}
    observe(chain.name, chain)
    still, paid = api.pay(body, key), api.pay(body, next_key)

    assert NOT_SEEN in error_of(unknown, 503, "policy_signer_unavailable")["message"]
    for response in (refused, again, still):
        error = error_of(response, 403, "service_not_payable")
        assert (error["rule"], error["message"], error["retry"]) == ("service_payable", WHY, "new_key")
        assert (error["limit"], error["requested"]) == ("0.00089088", TOO_LITTLE)
        assert "Retry-After" not in response
        assert response.content == refused.content
    assert ["Idempotent-Replayed" in one for one in (refused, again, still)] == [False, True, True]
    assert paid.status_code == 201
    entries = LogEntry.objects.filter(agent=agent).order_by("id").values_list("rule", "idempotency_key")
    assert [*entries] == [
        ("policy_signer_available", None), ("service_payable", key), ("under_max_payment", next_key)
    ]  # fmt: skip
    assert Agent.objects.get(pk=agent.pk).balance == 1000 - Decimal(TOO_LITTLE)


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
    away = EvmChain.of(replace(settings.CHAINS[LOCALNET], rpc_urls=("http://127.0.0.1:9",)), held_key("RELAYER_SEED"))
    monkeypatch.setattr("services.vetting.served_chains", lambda: {LOCALNET: away})

    assert find_objection(LOCALNET, new_address()) is None
