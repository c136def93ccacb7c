"""Nothing is written down at a wrong time: clocks that disagree, and agents whose last entry is in the future."""

from datetime import timedelta

import pytest
import requests
from django.db import connection

from foundation.kernel.errors import BudgetExceeded, PolicySignerUnavailable
from foundation.kernel.times import LARGEST_SKEW, utc_now
from ledger.clocks import Reading, clocks_agree, repair_clock
from ledger.models import ClockRepair, LogEntry
from payments.models import ChainState
from payments.tasks import observe_chain
from policy.models import Agent
from staff.audit import record
from tests.support.answers import error_of
from tests.support.clocks import pay_at, problems_of, shadow_clock
from tests.support.factories import decide, make_agent, make_api_key, make_service, new_name
from tests.support.local_ids import LOCALNET
from tests.support.servers import Servers

MS = timedelta(milliseconds=1)
JUMP = timedelta(days=30)


# --- Clocks that disagree ---------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("committed")
def test_a_server_whose_database_clock_jumps_decides_nothing_and_leaves_nothing_behind(servers, monkeypatch):
    agent, service, key = make_agent(), make_service(), make_api_key()
    body = {"agentId": agent.id, "service": service.id, "amount": "1", "asset": "USDC", "reason": "A jump"}

    def ask(url, **changes):
        headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": new_name("key")}
        return requests.post(f"{url}/v1/payments/request", json={**body, **changes}, headers=headers, timeout=30)

    monkeypatch.setenv("PGOPTIONS", f"-c search_path={shadow_clock('clock_30_days_ahead', JUMP.total_seconds())}")
    with Servers() as ahead:
        answers = [ask(ahead.urls[0]), ask(ahead.urls[0], amount="5000"), ask(ahead.urls[0], service="nobody")]
        ahead.kill("web-1")  # its second worker may still be starting, and does not hear that it is to end

    assert [answer.status_code for answer in answers] == [503] * 3
    assert {answer.json()["error"]["code"] for answer in answers} == {"policy_signer_unavailable"}
    assert all("time is not certain" in answer.json()["error"]["message"] for answer in answers)
    assert {answer.headers["Retry-After"] for answer in answers} == {"5"}
    assert "logId" not in answers[0].json()["error"]
    assert not LogEntry.objects.filter(agent=agent).exists()
    assert Agent.objects.get(pk=agent.id).last_entry_at is None
    # With the right clock all goes on.
    assert ask(servers.urls[0]).status_code == 201


@pytest.mark.parametrize(("seconds", "status"), [(3, 201), (-3, 201), (7, 503), (-7, 503), (30 * 86400, 503)])
def test_clocks_may_differ_by_five_seconds_either_way(api, agent, payment, shift, *, seconds, status):
    shift(seconds)

    assert api.pay(payment).status_code == status

    assert LogEntry.objects.filter(agent=agent).exists() is (status == 201)


@pytest.mark.parametrize(
    ("before", "after", "is_trusted"),
    [(0, 0, True), (-5, -5, True), (5, 5, True), (-5.001, -5.001, False), (5.001, 5.001, False), (-60, 0, True),
     (-60, 60, True), (-60, -5.001, False), (5.001, 60, False)],
)  # fmt: skip
def test_what_counts_is_by_how_much_the_clocks_differ_at_least_however_slow_the_answer(before, after, is_trusted):
    now = utc_now()
    reading = Reading(now + timedelta(seconds=before), now, now + timedelta(seconds=after))

    assert clocks_agree(reading) is is_trusted


def test_a_known_key_is_replayed_whatever_the_clocks_say(api, payment, shift):
    first = api.pay(payment, "known")
    shift(-600)

    again = api.pay(payment, "known")

    assert (again.status_code, again.content, again["Idempotent-Replayed"]) == (201, first.content, "true")


def test_it_is_said_once_a_minute_however_many_ask(api, payment, shift, caplog):
    shift(600)
    for _ in range(5):
        assert api.pay(payment).status_code == 503

    assert [message for message in caplog.messages if "clock" in message] == [caplog.messages[0]]


def test_a_worker_does_nothing_while_the_clocks_disagree(shift):
    ChainState.objects.filter(pk=LOCALNET).update(observed_at=utc_now() - JUMP)
    before = ChainState.objects.get(pk=LOCALNET).observed_at
    shift(-600)
    observe_chain(LOCALNET)
    assert ChainState.objects.get(pk=LOCALNET).observed_at == before

    shift(0)
    observe_chain(LOCALNET)
    assert ChainState.objects.get(pk=LOCALNET).observed_at > before


# --- An agent whose last entry is in the future -----------------------------------------------------------------------
def test_after_one_decision_in_the_future_nothing_is_decided_or_logged_until_it_is_repaired(
    api, agent, service, payment, caplog
):
    pay_at(agent, service, utc_now() + JUMP, key="from the future")
    for body in (payment, {**payment, "amount": "5000"}, {**payment, "asset": "EURC"}):
        assert "logId" not in error_of(api.pay(body), 503, "policy_signer_unavailable")
    assert LogEntry.objects.filter(agent=agent).count() == 1
    assert len([message for message in caplog.messages if "manage.py clocks" in message]) == 1

    repair_clock(agent.id, by="ops", reason="NTP was off")

    assert api.pay(payment).status_code == 201
    assert error_of(api.pay({**payment, "amount": "5000"}), 422, "budget_exceeded")
    assert problems_of(agent) == []


def test_an_agent_that_is_ahead_does_not_hide_that_another_is(service, caplog):
    agents = make_agent(), make_agent()
    for agent in agents:
        pay_at(agent, service, utc_now() + JUMP)
    for agent in agents * 3:
        with pytest.raises(PolicySignerUnavailable):
            decide(agent, service)

    said = [message for message in caplog.messages if "in the future" in message]
    assert [agent.id in message for agent, message in zip(agents, said, strict=True)] == [True, True]


def test_up_to_five_seconds_behind_the_last_entry_a_decision_is_dated_as_that(agent, service):
    now = utc_now() - timedelta(days=1)
    last = pay_at(agent, service, now)

    assert pay_at(agent, service, now - LARGEST_SKEW).created_at == last.created_at
    with pytest.raises(PolicySignerUnavailable):
        pay_at(agent, service, now - LARGEST_SKEW - MS)


def test_what_was_spent_in_the_future_counts_at_once_and_until_its_moment_has_left_the_window(service):
    agent = make_agent(daily_limit="10", weekly_limit="100", balance="1000")
    now = utc_now() - timedelta(days=60)
    pay_at(agent, service, now - timedelta(hours=30), "9")
    pay_at(agent, service, now, "1")
    jumped = now + JUMP
    pay_at(agent, service, jumped, "4")
    repair_at(agent, now + timedelta(minutes=1))

    def left_at(moment):
        left, agent_now = None, Agent.objects.get(pk=agent.id)
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT 10 - ledger_spent_since(%s, %s, %s)",
                [agent.id, agent_now.spent_total, moment - timedelta(days=1)],
            )
            (left,) = cursor.fetchone()
        return left

    assert left_at(now + timedelta(minutes=2)) == 5
    pay_at(agent, service, now + timedelta(minutes=2), "5")
    with pytest.raises(BudgetExceeded) as refusal:
        pay_at(agent, service, now + timedelta(minutes=3), "0.01")
    assert refusal.value.details["remaining"] == "0.00"
    # What was spent before and after the repair leaves as always; what is in the future, does not.
    assert left_at(now + timedelta(days=2)) == 6
    assert left_at(jumped) == 6
    assert left_at(jumped + timedelta(days=1) - MS) == 6
    assert left_at(jumped + timedelta(days=1)) == 10
    pay_at(agent, service, jumped + timedelta(hours=1), "6")
    with pytest.raises(BudgetExceeded) as refusal:
        pay_at(agent, service, jumped + timedelta(hours=2), "1")
    assert refusal.value.details["allowedAt"] == as_told(jumped + timedelta(days=1))
    assert left_at(jumped + timedelta(days=1)) == 4
    assert problems_of(agent) == []


def as_told(moment):
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


def repair_at(agent, moment):
    """Write the repair down as if it had been made at another moment than now, with the history moved by as much."""
    row = Agent.objects.get(pk=agent.id)
    assert row.last_entry_at is not None
    spent_before = 0
    for entry in LogEntry.objects.filter(agent=agent, created_at__lte=moment).order_by("created_at", "id"):
        spent_before = entry.spent_total
    ClockRepair.objects.create(
        agent=row, number=ClockRepair.objects.filter(agent=agent).count() + 1, head_id=row.last_entry_id,
        head_hash=row.last_entry_hash, head_at=row.last_entry_at, spent_total=row.spent_total,
        spent_before=spent_before, author="test", reason="A test", repaired_at=moment,
    )  # fmt: skip
    Agent.objects.filter(pk=agent.id).update(last_entry_at=moment)
    record(
        "agent.clock_repaired", subject_type="agent", subject=agent.pk, by="test", reason="A test",
        after={"lastEntryAt": moment}, before={"lastEntryAt": row.last_entry_at}, now=moment,
    )  # fmt: skip
