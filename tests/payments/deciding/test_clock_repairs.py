"""Repairs of agents whose last entry is in the future, and the command that makes them."""

import json
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from foundation.kernel.errors import OperationRefused
from foundation.kernel.ids import time_of
from foundation.kernel.times import LARGEST_SKEW, utc_now
from ledger.clocks import Reading, read_clocks, repair_clock
from ledger.models import ClockRepair, LogEntry
from ledger.queries import find_budget, read_log_page
from payments.models import Payment
from policy.models import Agent
from policy.operations import pause_agent, resume_agent
from tests.support.clocks import pay_at, problems_of

MS = timedelta(milliseconds=1)
JUMP = timedelta(days=30)


# --- An agent whose last entry is in the future -----------------------------------------------------------------------
def test_the_budget_of_a_repaired_agent_shows_the_present_windows(api, agent, service, payment):
    pay_at(agent, service, utc_now() + JUMP, "4")
    repair_clock(agent.id, by="ops", reason="NTP was off")
    api.pay(payment)

    budget = find_budget(agent.id)

    assert budget is not None
    assert budget.spent_today == budget.spent_this_week == 5
    assert budget.balance == 995


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
    pause_agent(agent.id, by="ann")
    assert api.pay(payment).status_code == 403
    resume_agent(agent.id, by="ann")

    assert api.pay(payment).status_code == 201
    assert Payment.objects.filter(agent=agent).count() == 2
    assert problems_of(agent) == []
