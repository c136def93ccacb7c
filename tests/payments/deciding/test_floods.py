"""What a client that asks again and again can fill the log with: the log is kept for ever."""

import time
from collections import Counter
from datetime import timedelta

import pytest
from django.db import OperationalError, connection

from foundation.kernel import counters
from foundation.kernel.errors import PolicySignerUnavailable, RateLimited
from foundation.kernel.times import utc_now
from ledger.models import LogEntry
from payments.models import ChainState, Payment
from payments.reconciling.verification import Progress, verify_agent
from policy.operations import pause_agent, switch_signer
from services.models import Service
from tests.support.answers import FIRST_MEMBERS, error_of
from tests.support.factories import decide, make_agent, make_api_key, make_service, new_name
from tests.support.localnets import EVM, SOLANA
from tests.support.servers import Servers
from tests.support.storms import Shot, strike

SECOND = timedelta(seconds=1)


def body_for(agent, service, amount="1.00"):
    return {"agentId": agent.id, "service": service.id, "amount": amount, "asset": "USDC", "reason": "A flood"}


@pytest.fixture
def unreachable():
    """An approved service on a chain where signing is stopped for this test: each payment to it is a 503."""
    chain = ChainState.objects.filter(chain=SOLANA.caip2)
    chain.update(stopped_reason="A test.")
    yield SOLANA.make_service()
    chain.update(stopped_reason="")


@pytest.fixture(scope="module")
def strict(django_db_setup, django_db_blocker):
    """Two servers that keep twenty refusals of an agent in a minute."""
    with pytest.MonkeyPatch.context() as patch, django_db_blocker.unblock():
        patch.setenv("REFUSALS_PER_MINUTE", "20")
        with Servers(count=2) as running:
            yield running


def storm(servers, agent, bodies, keys):
    key = make_api_key(agent=agent)
    urls = servers.urls
    return strike(
        [Shot(urls[i % len(urls)], key, name, body) for i, (name, body) in enumerate(zip(keys, bodies, strict=True))]
    )


# --- The same 503 again -----------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("committed")
def test_clients_that_retry_one_key_during_an_outage_leave_one_entry(servers, unreachable):
    agent = make_agent()

    answers = storm(servers, agent, [body_for(agent, unreachable)] * 90, [new_name("key")] * 90)

    entries = LogEntry.objects.filter(agent=agent)
    assert [answer.status for answer in answers] == [503] * 90
    assert not any(answer.is_replay for answer in answers)
    assert entries.count() == 1
    # Each answer is that of the entry that there is, byte for byte.
    (text,) = {answer.text for answer in answers}
    assert entries.get().id in text
    assert list(verify_agent(agent.id, Progress())) == []


def test_the_same_503_is_logged_once_a_day_while_the_outage_lasts(agent, unreachable):
    began, told = utc_now() - timedelta(days=3), []
    moments = [0, 4, 5, 6, 60, 3600, 86_399, 86_400, 86_405, 2 * 86_400]
    for seconds in moments:
        with pytest.raises(PolicySignerUnavailable) as unavailable:
            decide(agent, unreachable, at=began + seconds * SECOND, key="again")
        told.append(unavailable.value.details["logId"])

    entries = [entry.id for entry in LogEntry.objects.filter(agent=agent).order_by("id")]
    assert told == [entries[0]] * 7 + [entries[1]] * 2 + [entries[2]]
    assert len(entries) == 3


def test_an_outage_of_four_minutes_whose_reasons_take_turns_leaves_an_entry_for_each_request_and_reason(agent):
    service, began = make_service(), utc_now() - timedelta(hours=1)
    told: dict[tuple[str, str], set[str]] = {}
    ChainState.objects.filter(chain=service.chain).update(stopped_reason="An outage.")
    for second in range(0, 240, 4):
        switch_signer(is_signing=second % 8 == 0, by="test")
        for key in ("patient", "other"):
            with pytest.raises(PolicySignerUnavailable) as unavailable:
                decide(agent, service, at=began + second * SECOND, key=key)
            told.setdefault((key, str(unavailable.value)), set()).add(unavailable.value.details["logId"])

    entries = LogEntry.objects.filter(agent=agent)
    assert {len(ids) for ids in told.values()} == {1}
    assert sorted(entry for ids in told.values() for entry in ids) == sorted(entry.id for entry in entries)
    assert Counter(entry.explanation["message"] for entry in entries) == {
        "Signing is stopped on the service's chain.": 2,
        "The policy signer is out of service.": 2,
    }
    assert list(verify_agent(agent.id, Progress())) == []


def test_each_503_is_counted_whether_it_was_evaluated_logged_or_neither(api, agent, payment, monkeypatch):
    counters.PAYMENTS_UNAVAILABLE.take()
    switch_signer(is_signing=False, by="test")
    for _ in range(3):
        error_of(api.pay(payment, "order"), 503, "policy_signer_unavailable")
    assert (counters.PAYMENTS_UNAVAILABLE.take(), LogEntry.objects.filter(agent=agent).count()) == ({(): 3}, 1)
    monkeypatch.setattr("payments.deciding.judging.clocks_agree", lambda _: False)
    error_of(api.pay(payment), 503, "policy_signer_unavailable")
    monkeypatch.setattr("payments.deciding.operations.lock_and_read", raiser(OperationalError("away")))
    error_of(api.pay(payment), 503, "policy_signer_unavailable")
    assert (counters.PAYMENTS_UNAVAILABLE.take(), LogEntry.objects.filter(agent=agent).count()) == ({(): 2}, 1)
    monkeypatch.undo()
    error_of(api.pay({**payment, "amount": "5000"}), 422, "budget_exceeded")
    error_of(api.pay({**payment, "amount": "x"}), 400, "invalid_request")
    assert counters.PAYMENTS_UNAVAILABLE.take() == {}


def raiser(error):
    def fail(*_args, **_named):
        raise error

    return fail


def test_an_entry_that_is_no_503_is_not_told_again_like_one_whatever_its_row_says(api, agent, payment):
    switch_signer(is_signing=False, by="test")
    first = error_of(api.pay(payment, "order"), 503, "policy_signer_unavailable")
    digest = LogEntry.objects.get(pk=first["logId"]).refused_request
    switch_signer(is_signing=True, by="test")
    approved = decide(agent, Service.objects.get(pk=payment["service"]))
    with connection.cursor() as cursor:  # as the database's owner could
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("UPDATE ledger_logentry SET refused_request = NULL WHERE id = %s", [first["logId"]])
        cursor.execute("UPDATE ledger_logentry SET refused_request = %s WHERE id = %s", [digest, approved.id])
        cursor.execute("SET LOCAL session_replication_role = origin")
    switch_signer(is_signing=False, by="test")

    again = error_of(api.pay(payment, "order"), 503, "policy_signer_unavailable")

    assert again["logId"] not in (approved.id, first["logId"])


def test_what_would_be_approved_now_is_approved_although_it_was_a_503_just_before(api, agent, payment):
    switch_signer(is_signing=False, by="test")
    first, again = api.pay(payment, "order"), api.pay(payment, "order")
    switch_signer(is_signing=True, by="test")

    approved = api.pay(payment, "order")

    assert (again.status_code, again.content, again["Retry-After"]) == (503, first.content, "5")
    assert "Idempotent-Replayed" not in again
    assert (approved.status_code, "Idempotent-Replayed" in approved) == (201, False)
    assert api.pay(payment, "order").content == approved.content
    assert [entry.idempotency_key for entry in LogEntry.objects.filter(agent=agent).order_by("id")] == [None, "order"]


def test_another_key_payload_reason_or_agent_is_another_503(api, agent, payment):
    switch_signer(is_signing=False, by="test")
    api.pay(payment, "order")
    assert LogEntry.objects.filter(agent=agent).count() == 1
    for body, key in (({**payment, "amount": "2"}, "order"), (payment, "another")):
        error_of(api.pay(body, key), 503, "policy_signer_unavailable")
    assert LogEntry.objects.filter(agent=agent).count() == 3
    switch_signer(is_signing=True, by="test")
    ChainState.objects.filter(chain=EVM.caip2).update(stopped_reason="A test.")
    error_of(api.pay(payment, "order"), 503, "policy_signer_unavailable")
    assert LogEntry.objects.filter(agent=agent).count() == 4
    other = make_agent()
    error_of(api.pay({**payment, "agentId": other.id}, "order"), 503, "policy_signer_unavailable")
    assert LogEntry.objects.filter(agent=other).count() == 1


def test_a_payment_that_policy_refuses_now_is_refused_and_kept_although_it_was_a_503_just_before(api, agent, payment):
    switch_signer(is_signing=False, by="test")
    error_of(api.pay(payment, "order"), 503, "policy_signer_unavailable")
    pause_agent(agent.id, by="ann")

    refused = api.pay(payment, "order")

    assert error_of(refused, 403, "agent_paused")["rule"] == "agent_active"
    assert api.pay(payment, "order").content == refused.content


# --- Floods of refusals -----------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("kind", ["refused by policy", "refused for an outage"])
def test_no_storm_leaves_more_refusals_than_a_minute_may_have_and_what_is_approved_is_paid_all_the_same(
    strict, unreachable, kind
):
    agent, service = make_agent(daily_limit="1000", weekly_limit="1000"), make_service()
    flood = body_for(agent, service, "10.01") if kind == "refused by policy" else body_for(agent, unreachable)
    bodies = [body_for(agent, service, "0.01") if number % 10 == 0 else flood for number in range(100)]
    began = time.monotonic()

    answers = storm(strict, agent, bodies, [new_name("key") for _ in bodies])

    minutes = 1 + (time.monotonic() - began) // 60
    kept = LogEntry.objects.filter(agent=agent, result="blocked").count()
    status = 422 if kind == "refused by policy" else 503
    counts = Counter(answer.status for answer in answers)
    assert 20 <= kept <= 20 * minutes
    assert counts == {201: 10, status: kept, 429: 90 - kept}
    assert Payment.objects.filter(agent=agent).count() == 10
    assert {answer.code for answer in answers if answer.status == 429} == {"rate_limited"}
    assert list(verify_agent(agent.id, Progress())) == []


def test_a_refusal_too_many_is_429_says_when_to_come_back_and_is_not_kept(api, agent, payment, settings):
    settings.REFUSALS_PER_MINUTE = 3
    refused = {**payment, "amount": "5000"}
    first = api.pay(refused, "first")
    for _ in range(2):
        error_of(api.pay(refused), 422, "budget_exceeded")

    response = api.pay(refused, "fourth")

    error = error_of(response, 429, "rate_limited")
    assert list(error) == FIRST_MEMBERS
    assert error["message"].endswith("This one is, too, and is not logged.")
    wait_s = int(response["Retry-After"])
    assert 1 <= wait_s <= 60
    assert response["RateLimit-Policy"] == '"refusals";q=3;w=60'
    assert response["RateLimit"] == f'"refusals";r=0;t={wait_s}'
    assert LogEntry.objects.filter(agent=agent).count() == 3
    # What was decided is told again, what fits is paid, and the key of a 429 stays free.
    assert api.pay(refused, "first").content == first.content
    assert api.pay(payment, "fourth").status_code == 201
    assert error_of(api.pay({**refused, "reason": "Another"}, "first"), 409, "idempotency_conflict")


def test_a_minute_after_the_oldest_of_them_the_next_refusal_is_kept(agent, service, settings):
    settings.REFUSALS_PER_MINUTE = 2
    now = utc_now() - timedelta(hours=1)

    def refuse_at(moment):
        with pytest.raises(Exception) as refusal:  # noqa: PT011 - which one, is the test
            decide(agent, service, "5000", at=moment)
        return refusal.value

    assert [type(refuse_at(now + wait * SECOND)).__name__ for wait in (0, 10)] == ["BudgetExceeded"] * 2
    limited = refuse_at(now + 20.5 * SECOND)
    assert isinstance(limited, RateLimited)
    assert limited.retry_after_s == 40
    assert isinstance(refuse_at(now + 59.999 * SECOND), RateLimited)
    assert type(refuse_at(now + 60 * SECOND)).__name__ == "BudgetExceeded"
    assert isinstance(refuse_at(now + 69.999 * SECOND), RateLimited)
    assert type(refuse_at(now + 70 * SECOND)).__name__ == "BudgetExceeded"


def test_one_agents_refusals_do_not_count_for_another(api, agent, service, payment, settings):
    settings.REFUSALS_PER_MINUTE = 1
    error_of(api.pay({**payment, "amount": "5000"}), 422, "budget_exceeded")
    error_of(api.pay({**payment, "amount": "5000"}), 429, "rate_limited")

    error_of(api.pay(body_for(make_agent(), service, "5000")), 422, "budget_exceeded")
