"""`backtest_policy FILE`: which agents of which file are judged, what is wrong with a file, and how far it has come."""

import io
import json
from functools import partial
from pathlib import Path

import pytest
from django.core.management import call_command

from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from payments.management import trials
from services.operations import Registration, approve_service, register_service
from tests.payments.management.test_backtest_policy import judge, refusal, tell
from tests.support.agent_files import HEADER, Write, names, write_agent_file
from tests.support.factories import decide, make_agent, make_agent_of_old, new_address, new_name

pytestmark = pytest.mark.django_db


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return partial(write_agent_file, tmp_path)


def test_each_line_is_an_agent_and_some_of_them_can_be_named(write):
    ids = [make_agent().id for _ in range(3)]
    path = write(*(f"{one},USDC,1,2,3" for one in ids))

    assert [one["agentId"] for one in judge(path)] == ids
    assert [one["agentId"] for one in judge(path, "--agent", ids[2], "--agent", ids[0])] == [ids[0], ids[2]]
    assert [line.split(":")[0] for line in tell(path).splitlines() if line[0] != " "] == ids
    assert refusal(path, "--agent", "nobody") == "--agent: The file has no agent nobody."


def test_a_file_of_create_agent_can_be_judged_as_it_is(write):
    agent = make_agent()
    header = f"{HEADER},fund,chain,services,hourly_limit"

    assert judge(write(f"{agent.id},USDC,1,2,3,100,evm-localnet,a b;c,5", header=header))[0]["agentId"] == agent.id


def test_an_agent_of_before_ids_had_a_form_can_be_judged(write):
    agent = make_agent_of_old(f"An old agent, {new_name('x')}", asset=Asset.EURC)

    assert judge(write(f'"{agent.id}",EURC,1,2,3'))[0]["agentId"] == agent.id


def test_every_line_that_is_wrong_is_named_and_nothing_is_judged(write):
    good, other = make_agent().id, make_agent().id
    (nobody,) = names(1)
    path = write(
        f"{good},USDC,1,2,3,,",
        f"{nobody},USDC,1,2,3,,",
        f"{other},EURC,1,2,3,,",
        f"{good},USDC,1,2,3,,",
        "a,BTC,1,2,3,,",
        "b,USDC,1,-2,3,,",
        "c,USDC,1,2,3,many,",
        "d,USDC,1,2,3,5,,more",
        f"e,USDC,1,2,3,,{'s' * 129}",
        header=f"{HEADER},payments_per_hour,services",
    )

    said = refusal(path).splitlines()

    reasons = {
        3: f"There is no agent {nobody}.",
        4: f"asset: The allowance of {other} is in USDC.",
        5: f"The agent {good} is in line 2 already.",
        6: "asset: Must be one of",
        7: "daily_limit: Must be a plain decimal",
        8: "payments_per_hour: ",
        9: "It has more cells than the header.",
        10: "A service id has 1 to 128 characters.",
    }
    assert said[0] == "Nothing was judged. What is wrong with the file:"
    for told, (line, reason) in zip(said[1:], reasons.items(), strict=True):
        assert told.startswith(f"line {line}: {reason}")


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (f"{HEADER},yearly_limit", "There is no column yearly_limit."),
        ("id,asset,daily_limit,weekly_limit", "It lacks max_per_payment."),
        ("", "It lacks id, asset, max_per_payment, daily_limit, weekly_limit."),
    ],
)
def test_a_header_that_does_not_name_the_columns_is_refused(write, header, said):
    told = refusal(write("a,USDC,1,2,3", header=header))

    assert told.startswith("FILE: The first line must name the columns id, asset, ")
    assert told.endswith(said)


def test_a_file_that_cannot_be_read_is_refused(tmp_path, write):
    assert refusal(str(tmp_path / "nothing")).startswith("FILE: ")
    (tmp_path / "latin").write_bytes(b"id\xff")
    assert refusal(str(tmp_path / "latin")).startswith("FILE: ")
    assert refusal(write('a,USDC,"1,2,3')).startswith("FILE: line ")
    assert refusal(write("a,USDC,1,2,3", header=f'{HEADER},"id')).startswith("FILE: ")


@pytest.mark.parametrize("days", ["0", "-1", "3661", "1.5", "x", "", "\u0663", "9" * 5000])
def test_days_are_a_number_that_a_log_can_have(write, days):
    assert "--days: must be a whole number from 1 to 3,660" in refusal(write("a,USDC,1,2,3"), f"--days={days}")


def test_a_payee_that_is_any_text_stays_in_its_line(write):
    agent = make_agent()
    name = f"{new_name('a')}\nshop\t\u202e\x1b[2J"
    register_service(Registration(name, "A payee", f"evm-localnet:{new_address()}", Asset.USDC))
    approve_service(name, by="test")
    entry = decide(agent, name, "1", at=utc_now())

    told = tell(write(f"{agent.id},USDC,0.5,2,3"))

    (row,) = [line for line in told.splitlines() if entry.id in line]
    assert row.endswith("\\nshop\\t\\u202e\\x1b[2J")


def test_long_work_says_how_far_it_has_come_and_not_among_what_it_found(write, service, monkeypatch):
    agent, said, found = make_agent(), io.StringIO(), io.StringIO()
    for _ in range(2):
        decide(agent, service, "1", at=utc_now())
    monkeypatch.setattr(trials, "_PROGRESS_EVERY_S", -1)
    path = write(f"{agent.id},USDC,1,2,3", f"{make_agent().id},USDC,1,2,3")

    call_command("backtest_policy", path, "--json", stdout=found, stderr=said)

    assert said.getvalue().splitlines() == [f"0 of 2 agents, {count} decisions judged ..." for count in (1, 2)]
    assert len(json.loads(found.getvalue())["agents"]) == 2
