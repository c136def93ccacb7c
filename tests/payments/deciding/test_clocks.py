"""Clocks that disagree, and an agent whose last entry is in the future: nothing is written down at a wrong time."""

import json
from datetime import timedelta

import pytest
import requests
from django.core.management import CommandError, call_command
from django.db import connection

from allowance.kernel.errors import BudgetExceeded, OperationRefused, PolicySignerUnavailable
from allowance.kernel.ids import time_of
from allowance.kernel.times import LARGEST_SKEW, utc_now
from ledger.clocks import Reading, clocks_agree, read_clocks, repair_clock
from ledger.models import ClockRepair, LogEntry
from ledger.queries import find_budget, read_log_page
from payments.models import ChainState, Payment
from payments.reconciling.verification import Progress, verify_agent
from payments.tasks import observe_chain
from policy.models import Agent
from policy.operations import pause_agent, resume_agent
from tests.support.answers import error_of
from tests.support.chains import LOCALNET
from tests.support.factories import decide, make_agent, make_api_key, make_service, new_name
from tests.support.servers import Servers

MS = timedelta(milliseconds=1)
JUMP = timedelta(days=30)
SHADOW = """
    CREATE SCHEMA IF NOT EXISTS {schema};
    CREATE OR REPLACE FUNCTION {schema}.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
        AS $$ SELECT pg_catalog.clock_timestamp() + interval '{seconds} seconds' $$;
"""


def shadow_clock(schema: str, seconds: float) -> str:
    """Make a clock of the database that is ahead; returns the search path by which a session finds it."""
    with connection.cursor() as cursor:
        cursor.execute(SHADOW.format(schema=schema, seconds=seconds))
    return f"{schema},pg_catalog,public"  # without spaces, for PGOPTIONS


@pytest.fixture
def shift(db):
    """Return a function that puts the clock of the test's database session ahead by so many seconds."""

    def put_ahead(seconds):
        path = shadow_clock("shifted_clock", seconds)
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL search_path = {path}")

    return put_ahead


def pay_at(agent, service, at, amount="1", key=None):
    """Have a payment decided at any moment, also one to come; the chain's state counts as fresh."""
    return decide(agent, service, amount, at=at, key=key, max_chain_state_age=timedelta.max)


def problems_of(agent):
    return [found.problem for found in verify_agent(agent.id, Progress())]


# --- Clocks that disagree ---------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("committed")
def test_a_server_whose_database_clock_jumps_decides_nothing_and_leaves_nothing_behind(servers, monkeypatch):
    agent, service, key = make_agent(), make_service(), make_api_key()
    body = {"agentId": agent.id, "service": service.id, "amount": "1", "asset": "USDC", "reason": "A jump"}

    def ask(url, **changes):
        headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": new_name("key")}
        return requests.post(f"{url}/v1/payments/request", json={**body, **changes}, headers=headers, timeout=30)

    monkeypatch.setenv("PGOPTIONS", f"-c search_path={shadow_clock('clock_30_days_ahead', JUMP.total_seconds())}")
    with Servers(count=1) as ahead:
        answers = [ask(ahead.urls[0]), ask(ahead.urls[0], amount="5000"), ask(ahead.urls[0], service="nobody")]
        ahead.kill(0)  # its second worker may still be starting, and does not hear that it is to end

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


def test_the_budget_of_a_repaired_agent_shows_the_present_windows(api, agent, service, payment):
    pay_at(agent, service, utc_now() + JUMP, "4")
    repair_clock(agent.id, by="ops", reason="NTP was off")
    api.pay(payment)

    budget = find_budget(agent.id)

    assert budget is not None
    assert budget.spent_today == budget.spent_this_week == 5
    assert budget.agent.balance == 995


def test_an_agent_may_be_repaired_twice(agent, service):
    for days in (30, 10):
        pay_at(agent, service, utc_now() + timedelta(days=days), "2")
        repair_clock(agent.id, by="ops", reason="Again")
        pay_at(agent, service, utc_now(), "1")

    budget = find_budget(agent.id)

    assert budget is not None
    assert budget.spent_today == 6
    assert [repair.number for repair in ClockRepair.objects.filter(agent=agent)] == [1, 2]
    assert problems_of(agent) == []


def test_a_repair_by_a_clock_that_is_still_ahead_may_itself_be_repaired(agent, service, monkeypatch):
    """Both clocks are half right: 15 days ahead of what is true, and 15 days behind the entry."""
    pay_at(agent, service, utc_now(), "1")
    pay_at(agent, service, utc_now() + JUMP, "2")
    half = utc_now() + JUMP / 2
    with monkeypatch.context() as ahead:
        ahead.setattr("ledger.clocks.read_clocks", lambda: Reading(half, half, half))
        repair_clock(agent.id, by="ops", reason="Half right")
    assert problems_of(agent) == []

    repair_clock(agent.id, by="ops", reason="Right")
    assert problems_of(agent) == []
    budget = find_budget(agent.id)
    assert budget is not None
    assert budget.spent_today == 3
    pay_at(agent, service, utc_now(), "4")

    assert problems_of(agent) == []
    budget = find_budget(agent.id)
    assert budget is not None
    assert budget.spent_today == 7


@pytest.mark.parametrize("is_repaired_before", [False, True])
def test_what_somebody_forged_is_not_repaired_and_no_evidence_of_it_stays(agent, service, is_repaired_before):
    if is_repaired_before:
        pay_at(agent, service, utc_now() + JUMP)
        repair_clock(agent.id, by="ops", reason="NTP was off")
    else:
        pay_at(agent, service, utc_now())
    rows = Agent.objects.filter(pk=agent.id)
    true_at = rows.get().last_entry_at
    rows.update(last_entry_at=utc_now() + JUMP)

    assert problems_of(agent) == ["The agent's record of when its newest entry was made is not that entry's moment."]
    with pytest.raises(OperationRefused, match="somebody changed it"):
        repair_clock(agent.id, by="ops", reason="It is ahead")

    rows.update(last_entry_at=true_at)
    assert problems_of(agent) == []


def test_the_log_of_a_repaired_agent_is_paged_through_without_gap_or_duplicate(agent, service):
    now = utc_now()
    for moment in (now - timedelta(hours=1), now + JUMP, now + JUMP + MS):
        pay_at(agent, service, moment)
    repair_clock(agent.id, by="ops", reason="NTP was off")
    for _ in range(3):
        pay_at(agent, service, utc_now())
    seen: list[str] = []
    for agent_id in (agent.id, None):
        before_id, has_more, mine = None, True, []
        while has_more:
            page, has_more = read_log_page(agent_id=agent_id, result=None, before_id=before_id, size=2)
            mine += [entry.id for entry in page if entry.agent_id == agent.id]
            before_id = page[-1].id
        assert len(mine) == len(set(mine)) == 6
        assert not seen or mine == seen
        seen = mine
    assert all(time_of(entry.id) == entry.created_at for entry in LogEntry.objects.filter(agent=agent))


@pytest.mark.parametrize(
    "forgery",
    [
        "UPDATE ledger_clockrepair SET spent_before = spent_total",
        "UPDATE ledger_clockrepair SET spent_total = spent_total + 1",
        "UPDATE ledger_clockrepair SET head_at = repaired_at + interval '1 second'",
        "UPDATE ledger_clockrepair SET repaired_at = repaired_at + interval '1 hour'",
        "DELETE FROM ledger_clockrepair",
        "UPDATE policy_agent SET last_entry_at = last_entry_at - interval '1 day'",
    ],
)
def test_who_forges_a_repair_or_a_time_is_noticed(agent, service, forgery):
    pay_at(agent, service, utc_now() + JUMP, "4")
    repair_clock(agent.id, by="ops", reason="NTP was off")
    pay_at(agent, service, utc_now())
    assert problems_of(agent) == []
    column = "id" if "policy_agent" in forgery else "agent_id"
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE ledger_clockrepair DISABLE TRIGGER append_only")
        cursor.execute(f"{forgery} WHERE {column} = %s", [agent.id])

    assert problems_of(agent)


def test_an_entry_that_names_a_repair_which_nobody_made_is_noticed(agent, service):
    entry = pay_at(agent, service, utc_now())
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE ledger_logentry DISABLE TRIGGER append_only")
        cursor.execute(
            "INSERT INTO ledger_logentry SELECT (json_populate_record(e, json_build_object("
            "'id', 'log_00000000000000000000000000', 'clock_repairs', 9, 'idempotency_key', 'another'))).*"
            " FROM ledger_logentry e WHERE id = %s",
            [entry.id],
        )

    assert problems_of(agent)


def test_a_repair_is_kept_with_its_author_and_reason_and_stays(agent, service):
    entry = pay_at(agent, service, utc_now() + JUMP)
    repair_clock(agent.id, by="ops", reason="NTP was off")

    repair = ClockRepair.objects.get(agent=agent)
    assert (repair.author, repair.reason, repair.head_id) == ("ops", "NTP was off", entry.id)
    with connection.cursor() as cursor:
        cursor.execute("SELECT tgname FROM pg_trigger WHERE tgrelid = 'ledger_clockrepair'::regclass")
        assert ("append_only",) in cursor.fetchall()


def test_only_an_agent_that_is_ahead_is_repaired_by_somebody_for_a_reason_and_by_a_right_clock(agent, service, shift):
    with pytest.raises(OperationRefused, match="not in the future"):
        repair_clock(agent.id, by="ops", reason="Why not")
    pay_at(agent, service, utc_now() + JUMP)
    for by, reason in (("", "r"), ("ops", " "), ("ops", "x" * 501)):
        with pytest.raises(OperationRefused, match="Give the author"):
            repair_clock(agent.id, by=by, reason=reason)
    with pytest.raises(OperationRefused, match="There is no agent"):
        repair_clock("nobody", by="ops", reason="r")
    shift(-600)
    with pytest.raises(OperationRefused, match="disagree"):
        repair_clock(agent.id, by="ops", reason="r")


# --- The command ------------------------------------------------------------------------------------------------------
def last_line(text):
    return json.loads(text.splitlines()[-1])


def test_the_command_shows_clocks_and_who_is_ahead_and_repairs_it(agent, service, capsys):
    pay_at(agent, service, utc_now() + JUMP)
    with pytest.raises(CommandError, match=agent.id):
        call_command("clocks")
    shown = last_line(capsys.readouterr().out)
    assert [one["agentId"] for one in shown["agents"]] == [agent.id]
    assert shown["agents"][0]["aheadS"] == pytest.approx(JUMP.total_seconds(), abs=60)

    with pytest.raises(CommandError, match="Give the author"):
        call_command("clocks", repair=agent.id)
    call_command("clocks", repair=agent.id, reason="NTP was off")
    assert last_line(capsys.readouterr().out)["repair"] == 1
    assert ClockRepair.objects.get(agent=agent).author == "command line"
    call_command("clocks")
    assert last_line(capsys.readouterr().out)["agents"] == []


def test_the_command_ends_with_status_1_where_the_clocks_disagree(shift, capsys):
    shift(600)
    with pytest.raises(CommandError, match="all agents on this machine"):
        call_command("clocks")
    assert last_line(capsys.readouterr().out)["databaseAheadS"] == pytest.approx(600, abs=60)
    assert abs(read_clocks().skew) > LARGEST_SKEW


def test_pausing_and_resuming_a_repaired_agent_changes_nothing_of_it(agent, service, api, payment):
    pay_at(agent, service, utc_now() + JUMP)
    repair_clock(agent.id, by="ops", reason="NTP was off")
    pause_agent(agent.id)
    assert api.pay(payment).status_code == 403
    resume_agent(agent.id)

    assert api.pay(payment).status_code == 201
    assert Payment.objects.filter(agent=agent).count() == 2
    assert problems_of(agent) == []
