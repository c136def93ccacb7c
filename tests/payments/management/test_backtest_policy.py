"""`backtest_policy FILE`: what other limits would have decided otherwise of what agents asked for."""

import json
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from foundation.kernel.errors import ContractError
from foundation.kernel.times import format_instant, utc_now
from ledger import preview
from ledger.models import LogEntry
from ledger.past_payees import read_payees
from ledger.preview import preview_limits
from payments.management import trials
from policy.limits import Limits
from policy.models import Agent, PolicyRevision
from policy.more_limits import MoreLimits
from staff.models import AuditEntry
from tests.support.agent_files import HEADER, Write, write_agent_file
from tests.support.commands import run
from tests.support.factories import decide, make_agent, make_service
from tests.support.past_movements import fund_at
from tests.support.trees import make_child

pytestmark = pytest.mark.django_db
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
WIDE: dict[str, Any] = {"max_per_payment": "100", "daily_limit": "1000", "weekly_limit": "1000"}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return partial(write_agent_file, tmp_path)


@pytest.fixture
def now():
    return utc_now() - HOUR


def ask(agent, service, amount, at):
    try:
        return decide(agent, service, amount, at=at).id
    except ContractError as refusal:
        return refusal.details["logId"]


def tell(*arguments: str) -> str:
    lines, error = run("backtest_policy", *arguments)
    assert error is None, error
    return "\n".join(lines)


def judge(*arguments: str) -> list[dict[str, Any]]:
    (line,) = tell(*arguments, "--json").splitlines()
    agents: list[dict[str, Any]] = json.loads(line)["agents"]
    return agents


def refusal(*arguments: str) -> str:
    lines, error = run("backtest_policy", *arguments)
    assert not lines
    assert error is not None
    return str(error)


def test_it_says_what_would_be_decided_otherwise_by_which_rule_and_lists_it_newest_first(write, service, now):
    agent = make_agent(max_per_payment="10", daily_limit="50", weekly_limit="100")
    # By 9 a day and 12 a payment: 6 fits, 4 does not any more, 12 does neither way, 3 and 1 make 10.
    ids = [ask(agent, service, amount, now - DAY + n * HOUR) for n, amount in enumerate(["6", "4", "12", "3", "1"])]
    path = write(f"{agent.id},USDC,12,9,200")

    (found,) = judge(path)

    assert (found["agentId"], found["asset"], found["decisions"], found["isCapped"]) == (agent.id, "USDC", 5, False)
    rules = [{"rule": "under_daily_limit", "decisions": 2, "amount": "5.00"}]
    assert found["refused"] == {"decisions": 2, "amount": "5.00", "rules": rules}
    assert found["letThrough"] == {"decisions": 0, "amount": "0.00", "rules": []}
    assert (found["otherwise"], found["notListed"]) == (2, 0)
    assert [one["logId"] for one in found["newest"]] == [ids[4], ids[1]]
    entry = LogEntry.objects.get(pk=ids[4])
    assert found["newest"][0] == {
        "at": format_instant(entry.created_at), "logId": entry.id, "amount": "1.00", "payee": service.id,
        "agentId": agent.id,
        "then": {"result": "approved", "rule": entry.rule}, "now": {"result": "blocked", "rule": "under_daily_limit"},
    }  # fmt: skip
    told = tell(path)
    assert told.startswith(f"{agent.id}: 5 decisions judged, of ")
    assert "\n  2 approved then, would be refused now: 5.00 USDC\n    under_daily_limit: 2, 5.00 USDC\n" in told
    assert "\n  0 refused then, would be approved now\n" in told
    assert told.index(ids[4]) < told.index(ids[1])
    row = next(line for line in told.splitlines() if ids[4] in line)
    words = (format_instant(entry.created_at), "1.00", "approved → under_daily_limit", service.id)
    assert [one in row for one in words] == [True] * 4


def test_what_was_refused_and_would_be_approved_is_told_by_the_rule_that_refused_it(write, service, now):
    agent = make_agent(max_per_payment="5", daily_limit="50", weekly_limit="100")
    refused = ask(agent, service, "7.5", now - DAY)
    path = write(f"{agent.id},USDC,8,50,100")

    (found,) = judge(path)

    assert found["letThrough"]["rules"] == [{"rule": "under_max_payment", "decisions": 1, "amount": "7.50"}]
    (one,) = found["newest"]
    assert (one["logId"], one["then"]) == (refused, {"result": "blocked", "rule": "under_max_payment"})
    assert one["now"]["result"] == "approved"
    assert "under_max_payment → approved" in tell(path)


def test_optional_limits_are_columns_and_what_is_not_in_the_file_is_no_limit(write, service, now):
    agent = make_agent(**WIDE, hourly_limit=Decimal(1))
    for minutes in (30, 20, 10):
        ask(agent, service, "1", now - timedelta(minutes=minutes))
    ask(agent, service, "1", now)

    wide, narrow = (
        judge(write(f"{agent.id},USDC,100,1000,1000,{cell}", header=f"{HEADER},payments_per_hour"))[0]
        for cell in ("", "0")
    )

    assert (wide["refused"]["decisions"], wide["letThrough"]["decisions"]) == (0, 3)
    assert narrow["refused"]["rules"] == [{"rule": "under_hourly_count", "decisions": 1, "amount": "1.00"}]


def test_it_says_what_would_wait_for_a_person(write, service, now):
    agent = make_agent(**WIDE)
    asked = [ask(agent, service, amount, now - DAY + n * HOUR) for n, amount in enumerate(["5", "6"])]
    path = write(f"{agent.id},USDC,100,1000,1000,5", header=f"{HEADER},approval_above")

    (found,) = judge(path)

    rules = [{"rule": "under_approval_limit", "decisions": 1, "amount": "6.00"}]
    assert (found["held"]["rules"], found["otherwise"], found["refused"]["decisions"]) == (rules, 1, 0)
    (one,) = found["newest"]
    assert (one["logId"], one["now"]) == (asked[1], {"result": "held", "rule": "under_approval_limit"})
    told = tell(path)
    assert (
        "\n  1 asked nobody then, would wait for a person now: 6.00 USDC\n    under_approval_limit: 1, 6.00 USDC\n"
        in told
    )
    assert "approved → held" in told


def test_it_judges_as_the_preview_of_the_console_does(write, now):
    known, other = make_service(), make_service()
    agent = make_agent(**WIDE, services=[known.id], balance="0")
    fund_at(agent, now - 3 * DAY, "100")
    for number, service in enumerate((known, other, known, other)):
        ask(agent, service, "3", now - 2 * DAY + number * HOUR)
    limits = Limits(Decimal(100), Decimal(8), Decimal(1000), [other.id], MoreLimits(payments_per_day=1))

    (found,) = judge(write(f"{agent.id},USDC,100,8,1000,{other.id},1", header=f"{HEADER},services,payments_per_day"))

    agent.refresh_from_db()
    seen = preview_limits(agent, limits, now=utc_now(), payees=read_payees(limits))
    for share, written in ((seen.refused, found["refused"]), (seen.let_through, found["letThrough"])):
        assert dict(share.by_rule) == {one["rule"]: one["decisions"] for one in written["rules"]}
    assert [one["logId"] for one in found["newest"]] == [one.past.id for one in seen.newest()]
    assert (seen.refused.count, seen.let_through.count) == (2, 1)


def test_without_days_it_judges_those_of_thirty_days_and_with_days_those_of_that_many(write, service, now):
    agent = make_agent(**WIDE)
    for days in (40, 20, 2):
        ask(agent, service, "9", now - days * DAY)
    path = write(f"{agent.id},USDC,8,1000,1000")

    assert judge(path)[0]["decisions"] == 2
    assert [judge(path, "--days", days)[0]["decisions"] for days in ("1", "3", "60")] == [0, 1, 3]
    (found,) = judge(path, "--days", "60")
    assert (utc_now() - timedelta(days=60, minutes=5)).isoformat() < found["since"] < found["until"]


def test_of_very_many_the_newest_are_judged_and_it_says_so(write, service, now, monkeypatch):
    agent = make_agent(**WIDE)
    for number in range(4):
        ask(agent, service, "9", now - DAY + number * HOUR)
    path = write(f"{agent.id},USDC,8,1000,1000")

    monkeypatch.setattr(preview, "MOST_DECISIONS", 3)
    monkeypatch.setattr(trials, "MOST_SINCE", 2)

    assert [(one["decisions"], one["isCapped"]) for one in (*judge(path), *judge(path, "--days", "9"))] == [
        (3, True),
        (2, True),
    ]
    assert "\n  There were more: these are the newest.\n" in tell(path)


def test_of_many_that_differ_the_newest_are_listed_and_how_many_more_is_said(write, service, now, monkeypatch):
    monkeypatch.setattr(preview, "MOST_LISTED", 2)
    agent = make_agent(**WIDE)
    ids = [ask(agent, service, "9", now - DAY + number * HOUR) for number in range(5)]
    path = write(f"{agent.id},USDC,8,1000,1000")

    (found,) = judge(path)

    assert ([one["logId"] for one in found["newest"]], found["notListed"]) == ([ids[4], ids[3]], 3)
    assert tell(path).endswith("\n    and 3 more before these.")


def test_of_a_tree_it_says_who_paid_and_what_is_not_in_it(write, service, now):
    root = make_agent(**WIDE)
    child = make_child(root, **WIDE)
    ask(child, service, "9", now)
    path = write(f"{root.id},USDC,8,1000,1000")

    (found,) = judge(path)

    assert [one["agentId"] for one in found["newest"]] == [child.id]
    assert found["notes"][-1] == "Requests of agents below that were refused are not in it."
    told = tell(path)
    assert f"\n  {found['notes'][0]}\n  {found['notes'][1]}\n" in told
    assert f"{service.id} by {child.id}" in told


def test_it_changes_nothing(write, service, now):
    agent = make_agent(**WIDE)
    ask(agent, service, "9", now)
    counted = (LogEntry, AuditEntry, PolicyRevision)
    before = [model.objects.count() for model in counted], Agent.objects.filter(pk=agent.id).values().get()

    tell(write(f"{agent.id},USDC,1,1,1"))

    after = [model.objects.count() for model in counted], Agent.objects.filter(pk=agent.id).values().get()
    assert after == before
