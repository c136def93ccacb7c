"""Claims about concurrency: several client processes against several server processes, real commits."""

import itertools
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest
import requests
from django.db import connection, transaction

from foundation.kernel.assets import Asset
from foundation.kernel.errors import PolicySignerUnavailable
from ledger.models import BalanceMovement, LogEntry
from payments.deciding.operations import request_payment
from payments.models import Payment, Relayer, Settlement
from policy.models import Agent
from policy.operations import pause_agent
from policy.parents import lock_agent
from services.models import Service, WebhookEvent
from tests.support.factories import make_agent, make_api_key, new_name
from tests.support.fake_chain import make_fake_chain
from tests.support.invariants import check_agent, check_nonces
from tests.support.local_chain import Localnet
from tests.support.local_ids import LOCALNET
from tests.support.localnets import EVM, SOLANA
from tests.support.payment_requests import environment_of, make_request, make_service_on
from tests.support.servers import Servers
from tests.support.storms import Shot, Storm, strike

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.long(50)]


@pytest.fixture(autouse=True)
def check_all_nonces(committed: None) -> Any:
    """Whatever a storm did, the relayers' nonces have neither gap nor duplicate."""
    yield
    check_nonces(LOCALNET)


class Target:
    """An agent, a service and a key, and the shots that can be fired at them."""

    def __init__(self, servers: Servers, localnet: Localnet = EVM, **agent: Any) -> None:
        self.agent = make_agent(**agent)
        self.service = localnet.make_service()
        self.key = make_api_key()
        self._urls = itertools.cycle(servers.urls)

    def shot(self, amount: str = "1.00", key: str | None = None) -> Shot:
        body = {
            "agentId": self.agent.id,
            "service": self.service.id,
            "amount": amount,
            "asset": "USDC",
            "reason": "A storm",
        }
        return Shot(next(self._urls), self.key, key or new_name("key"), body)

    def entries(self) -> Any:
        return LogEntry.objects.filter(agent=self.agent).order_by("id")


# --- One key ----------------------------------------------------------------------------------------------------------
def test_fifty_identical_requests_at_once_are_one_payment_and_fifty_identical_answers(servers):
    target = Target(servers)
    Service.objects.filter(pk=target.service.pk).update(webhook_url="https://payee.example/hook")
    key = new_name("key")

    answers = strike([target.shot(key=key) for _ in range(50)])

    assert [answer.status for answer in answers] == [201] * 50
    assert len({answer.text for answer in answers}) == 1
    assert Counter(answer.is_replay for answer in answers) == {True: 49, False: 1}
    assert target.entries().count() == 1
    payment = Payment.objects.get(agent=target.agent)
    assert Settlement.objects.filter(payments=payment).count() == 1
    assert BalanceMovement.objects.filter(payment_id=payment.id).count() == 1
    assert WebhookEvent.objects.filter(service=target.service).count() == 1
    check_agent(target.agent.id)


def test_identical_requests_that_policy_refuses_are_one_entry_and_one_refusal(servers):
    target = Target(servers, max_per_payment="1")
    key = new_name("key")

    answers = strike([target.shot("1.01", key) for _ in range(30)])

    assert [answer.status for answer in answers] == [422] * 30
    assert len({answer.text for answer in answers}) == 1
    assert sum(not answer.is_replay for answer in answers) == 1
    assert target.entries().get().result == "blocked"


def test_two_payloads_with_one_key_at_once_are_one_payment_and_a_conflict(servers):
    target = Target(servers)
    keys = [new_name("key") for _ in range(15)]

    answers = strike([target.shot(amount, key) for key in keys for amount in ("1.00", "2.00")])

    for one, other in zip(answers[::2], answers[1::2], strict=True):
        assert sorted([one.status, other.status]) == [201, 409]
        assert (one if one.status == 409 else other).code == "idempotency_conflict"
    assert [entry.result for entry in target.entries()] == ["approved"] * 15
    check_agent(target.agent.id)


# --- Limits -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("limits", "rule"),
    [
        ({"daily_limit": "12.34", "weekly_limit": "1000"}, "under_daily_limit"),
        ({"daily_limit": "1000", "weekly_limit": "12.34"}, "under_weekly_limit"),
        ({"daily_limit": "1000", "weekly_limit": "1000", "balance": "12.34"}, "balance_covers_payment"),
    ],
    ids=["daily", "weekly", "balance"],
)
def test_of_a_hundred_payments_at_once_exactly_as_many_are_approved_as_fit(servers, limits, rule):
    target = Target(servers, **limits)

    # 33 times 0.37 is 12.21; one more would be 12.58.
    answers = strike([target.shot("0.37") for _ in range(100)])

    assert Counter(answer.status for answer in answers) == {201: 33, 422: 67}
    assert {answer.code for answer in answers if answer.status == 422} == {"budget_exceeded"}
    assert Counter(entry.rule for entry in target.entries()) == {"under_max_payment": 33, rule: 67}
    assert Payment.objects.filter(agent=target.agent).count() == 33
    check_agent(target.agent.id)


def test_the_last_unit_of_a_limit_is_spent_once_by_payments_of_different_sizes(servers):
    target = Target(servers, daily_limit="20", max_per_payment="20")
    sizes = ["0.01", "19.99", "7.50", "12.50", "20.00", "3.33"]

    strike([target.shot(size) for size in sizes * 10])

    spent = sum(payment.amount for payment in Payment.objects.filter(agent=target.agent))
    refused = [Decimal(entry.amount) for entry in target.entries().filter(result="blocked")]
    assert spent <= 20
    # Spend only grows, so whatever was refused cannot fit now either.
    assert all(spent + amount > 20 for amount in refused)
    check_agent(target.agent.id)


# --- Relayers ---------------------------------------------------------------------------------------------------------
def test_many_agents_over_few_relayers_leave_no_gap_in_their_nonces(servers):
    targets = [Target(servers) for _ in range(12)]
    relayers = Relayer.objects.filter(chain=LOCALNET, number__gte=3)
    relayers.update(is_enabled=False)
    try:
        answers = strike([target.shot() for target in targets * 10], processes=3, threads=12)
    finally:
        relayers.update(is_enabled=True)

    assert [answer.status for answer in answers] == [201] * 120
    used = Settlement.objects.filter(payments__agent__in=[target.agent for target in targets])
    assert set(used.values_list("relayer__number", flat=True)) <= {0, 1, 2}
    check_nonces(LOCALNET)
    for target in targets:
        check_agent(target.agent.id)


def test_many_agents_at_once_pay_on_a_chain_without_nonces_and_all_of_it_arrives(servers):
    SOLANA.drain()
    SOLANA.observe()
    targets = [Target(servers, SOLANA) for _ in range(8)]

    answers = strike([target.shot() for target in targets * 8], processes=3, threads=8)
    SOLANA.drain()

    assert [answer.status for answer in answers] == [201] * 64
    rows = Settlement.objects.filter(payments__agent__in=[target.agent for target in targets])
    assert rows.filter(nonce=None, state="final").count() == 64
    for target in targets:
        assert SOLANA.balance_of(Asset.USDC, target.service.address) == 8_000_000
        check_agent(target.agent.id)


def test_a_payment_while_every_relayer_is_busy_is_refused_and_logged_and_the_key_works_later():
    chain = make_fake_chain(relayers=2)
    agent, service = make_agent(), make_service_on(chain)
    request = make_request(agent, service)

    with transaction.atomic():
        assert len(Relayer.objects.select_for_update().filter(chain=chain.name)) == 2
        refusal = _elsewhere(lambda: _rule_of(request, chain))

    assert refusal == "policy_signer_available"
    assert LogEntry.objects.get(agent=agent).idempotency_key is None
    assert not request_payment(request, environment_of(chain)).is_replay
    check_nonces(chain.name)
    check_agent(agent.id)


def test_a_payment_takes_the_relayer_that_is_free():
    chain = make_fake_chain(relayers=2)
    agent, service = make_agent(), make_service_on(chain)

    with transaction.atomic():
        busy = Relayer.objects.select_for_update().get(chain=chain.name, number=0)
        _elsewhere(lambda: request_payment(make_request(agent, service), environment_of(chain)))

    assert Settlement.objects.get(chain=chain.name).relayer_id != busy.pk


# --- Pausing, locking, dying ------------------------------------------------------------------------------------------
def test_once_an_agent_is_paused_none_of_its_payments_is_approved(servers):
    target = Target(servers, daily_limit="1000", weekly_limit="1000")
    storm = iter(Storm([target.shot("0.01") for _ in range(240)]))

    answers = list(itertools.islice(storm, 20))
    pause_agent(target.agent.id, by="ann")
    head = Agent.objects.get(pk=target.agent.id).last_entry_id
    answers += storm

    assert not target.entries().filter(id__gt=head, result="approved").exists()
    outcomes = Counter(answer.status for answer in answers)
    assert outcomes[201] == target.entries().filter(result="approved").count()
    assert outcomes[201] + outcomes[403] == 240
    assert _post(target.shot("0.01")).json()["error"]["code"] == "agent_paused"
    check_agent(target.agent.id)


def test_an_agent_that_is_locked_for_too_long_is_answered_503_and_the_key_works_later(servers):
    target = Target(servers)
    shot = target.shot()

    with transaction.atomic():
        lock_agent(target.agent.id)
        answer = _elsewhere(lambda: _post(shot))

    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "policy_signer_unavailable"
    assert int(answer.headers["Retry-After"]) > 0
    assert not target.entries().exists()
    later = _post(shot)
    assert later.status_code == 201
    assert "Idempotent-Replayed" not in later.headers


def test_servers_that_are_killed_in_a_storm_lose_and_repeat_nothing(committed):
    with Servers(count=3) as servers:
        targets = [Target(servers, daily_limit="25", weekly_limit="100") for _ in range(3)]
        shots = [target.shot() for target in targets * 40]

        storm = iter(Storm(shots, processes=3, threads=8))
        answers = list(itertools.islice(storm, 10))
        servers.kill("web-1")
        answers += itertools.islice(storm, 10)
        servers.kill("web-2")
        answers += storm
        assert any(answer.status == 0 for answer in answers), "nothing was killed in time"
        for target in targets:
            check_agent(target.agent.id)
        check_nonces(LOCALNET)

        survivor = servers.urls[2]
        again = strike([Shot(survivor, shot.api_key, shot.idempotency_key, shot.body) for shot in shots])

        known = {answer.index: answer for answer in answers if answer.status}
        for retry in again:
            if retry.index in known:
                assert (retry.status, retry.text) == (known[retry.index].status, known[retry.index].text)
        for target in targets:
            # Every key has one decision, and as many were approved as fit.
            decisions = Counter(target.entries().values_list("idempotency_key", flat=True))
            assert decisions == Counter({shot.idempotency_key: 1 for shot in shots if _is_at(shot, target)})
            assert Payment.objects.filter(agent=target.agent).count() == 25
            check_agent(target.agent.id)


def _is_at(shot: Shot, target: Target) -> bool:
    return bool(shot.body["agentId"] == target.agent.id)


def _post(shot: Shot) -> requests.Response:
    headers = {"Authorization": f"Bearer {shot.api_key}", "Idempotency-Key": shot.idempotency_key}
    return requests.post(f"{shot.url}/v1/payments/request", json=shot.body, headers=headers, timeout=60)


def _rule_of(request: Any, chain: Any) -> str:
    with pytest.raises(PolicySignerUnavailable) as refused:
        request_payment(request, environment_of(chain))
    return str(refused.value.details["rule"])


def _elsewhere(act: Any) -> Any:
    """Act in another thread, which has a database connection of its own, and wait for it."""

    def act_and_leave() -> Any:
        try:
            return act()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(act_and_leave).result()
