"""`create_agent --from FILE`: a file of agents is made as a whole or not at all, and another run finishes it."""

import csv
import stat
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest
from django.core.management import CommandError

from foundation.kernel.errors import OperationRefused
from ledger.models import BalanceMovement
from payments.management import agent_making
from payments.management.agent_file import read_agent_file
from policy.models import Agent, ApiKey, PolicyRevision
from policy.operations import pause_agent
from staff.models import AuditEntry
from tests.support.agent_files import HEADER, Write, make, names, refusal, write_agent_file
from tests.support.commands import run
from tests.support.local_ids import LOCALNET, SOLANA_LOCALNET
from tests.support.reconciliations import make_agent_with_surplus

pytestmark = pytest.mark.django_db


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return partial(write_agent_file, tmp_path)


def audit(ids: list[str]) -> list[tuple[str, str, str]]:
    return list(AuditEntry.objects.filter(subject__in=ids).order_by("id").values_list("subject", "action", "reason"))


def test_each_line_is_an_agent_with_its_policy_and_its_audit(write):
    one, two, three = names(3)
    header = f"services,{HEADER}"
    path = write(
        f"b a;c,{one},USDC,1,2,3", f",{two},SOL,0,0.000000001,5", "", f'"x","{three}",EURC,1,1,1', header=header
    )

    printed = make(path, "--reason", "Ticket 7")

    assert (printed["created"], printed["unchanged"], printed["funded"], printed["keys"]) == (3, [], {}, None)
    made = {agent.id: agent for agent in Agent.objects.filter(pk__in=[one, two, three])}
    assert [made[name].asset for name in (one, two, three)] == ["USDC", "SOL", "EURC"]
    policies = PolicyRevision.objects.filter(agent__in=made).order_by("agent")
    assert [one.allowed_services for one in policies] == [["a", "b", "c"], None, ["x"]]
    assert policies[1].daily_limit == Decimal("0.000000001")
    assert audit([one, two, three]) == [(name, "agent.created", "Ticket 7") for name in (one, two, three)]


def test_every_line_that_is_wrong_is_named_and_nothing_is_made(write):
    good, taken, other = names(3)
    make(write(f"{taken},USDC,1,2,3", f"{other},USDC,1,2,3"))
    path = write(
        f"{good},USDC,1,2,3,,,",
        f"{good},EURC,1,2,3,,,",
        "x,BTC,1,2,3,,,",
        "y,USDC,1e3,2,3,,,",
        "z,USDC,1,-2,3,,,",
        "w,USDC,1,2,0.0000001,,,",
        "v,USDC,1,2",
        "u,USDC,1,2,3,0,,",
        "t,USDC,1,2,3,1,moon,",
        "s,SOL,1,2,3,1,evm-localnet,",
        f"{'i' * 256},USDC,1,2,3,,,",
        f"{taken},USDC,1,2,4,,,",
        f"r,USDC,1,2,3,,,{'s' * 129}",
        "q,USDC,1,2,3,,,,more",
        f"{other.upper()},USDC,1,2,3,,,",
        'p,USDC,"2,50",2,3,,,',
        header=f"{HEADER},fund,chain,services",
    )

    said = refusal(path).splitlines()

    reasons = {
        3: f"The agent {good} is in line 2 already.",
        4: "asset: Must be one of",
        5: "max_per_payment: Must be a plain decimal",
        6: "daily_limit: Must be a plain decimal",
        7: "weekly_limit: USDC has 6 decimals",
        8: "weekly_limit: Must be a plain decimal",
        9: "fund: Must be greater than zero.",
        10: "chain: There is no chain moon.",
        11: "No escrow of SOL is served on evm-localnet.",
        12: "An agent id is 1 to 64 letters",
        13: f"There is an agent {taken} already, with another asset or policy",
        14: "A service id has 1 to 128 characters.",
        15: "It has more cells than the header.",
        16: f"There is an agent “{other}” already, which people take for",
        17: "max_per_payment: Must be a plain decimal",
    }
    assert said[0] == "No agent was made. What is wrong with the file:"
    for told, (line, reason) in zip(said[1:], reasons.items(), strict=True):
        assert told.startswith(f"line {line}: {reason}")
    assert not Agent.objects.filter(pk=good).exists()


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("id,asset,daily_limit,weekly_limit", "The first line must name the columns id, asset"),
        (f"{HEADER},surprise", "The first line must name the columns"),
        (f"{HEADER},id", "The first line must name the columns"),
        (HEADER.upper(), "The first line must name the columns"),
    ],
)
def test_a_header_that_does_not_name_the_columns_is_refused(write, header, said):
    assert said in refusal(write("a,USDC,1,2,3", header=header))


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    assert "--from: " in refusal(str(tmp_path / "nothing"))
    (tmp_path / "latin").write_bytes(b"id\xff")
    assert "--from: " in refusal(str(tmp_path / "latin"))


def test_another_run_finishes_what_was_interrupted(write, monkeypatch):
    monkeypatch.setattr(agent_making, "_CHUNK", 2)
    made, rest = names(3), names(3)
    first = [f"{name},USDC,1,2,3" for name in made]
    make(write(*first))
    pause_agent(made[0], by="test")

    again = make(write(*first, *(f"{name},USDC,1.00,2,3" for name in rest)))

    assert (again["created"], again["unchanged"]) == (3, made)
    assert Agent.objects.filter(pk__in=[*made, *rest]).count() == 6
    assert [action for _, action, _ in audit(made)] == ["agent.created"] * 3 + ["agent.paused"]
    assert make(write(*first))["created"] == 0


def test_money_comes_out_of_a_surplus_that_covers_the_sum_and_only_once(write):
    make_agent_with_surplus()  # 20 USDC on the EVM chain, 5 on Solana
    ids = names(3)
    lines = [
        f"{ids[0]},USDC,1,2,3,12,",
        f"{ids[1]},USDC,1,2,3,8,evm-localnet",
        f"{ids[2]},USDC,1,2,3,5,solana-localnet",
    ]
    header = f"{HEADER},fund,chain"

    printed = make(write(*lines, header=header))

    assert (printed["created"], printed["funded"]) == (3, {"USDC": "25.00"})
    movements = BalanceMovement.objects.filter(agent__in=ids).order_by("agent")
    assert [(one.amount, one.chain) for one in movements] == [(12, LOCALNET), (8, LOCALNET), (5, SOLANA_LOCALNET)]
    assert [action for _, action, _ in audit(ids[:1])] == ["agent.created", "agent.funded"]
    assert make(write(*lines, header=header))["funded"] == {}


def test_a_sum_that_is_not_covered_makes_nothing_though_each_line_would_be(write):
    make_agent_with_surplus()
    ids = names(2)

    said = refusal(write(*(f"{name},USDC,1,2,3,10.01," for name in ids), header=f"{HEADER},fund,chain"))

    assert "20.02 USDC are not covered: the surplus of the escrow on evm-localnet is 20.00." in said
    assert not Agent.objects.filter(pk__in=ids).exists()


def test_each_new_agent_gets_a_key_in_a_file_that_only_its_owner_reads(write, tmp_path):
    old, *new = names(3)
    make(write(f"{old},USDC,1,2,3"))
    path, keys = write(*(f"{name},USDC,1,2,3" for name in (old, *new))), tmp_path / "keys.csv"

    printed = make(path, "--keys", str(keys))

    assert printed["keys"] == str(keys)
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    with keys.open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [row["id"] for row in written] == new
    assert all(row["apiKey"].startswith("alw_") for row in written)
    assert ApiKey.objects.filter(agent__in=new).count() == 2
    assert "--keys: " in refusal(write("another,USDC,1,2,3"), "--keys", str(keys))
    assert not Agent.objects.filter(pk="another").exists()


@pytest.mark.parametrize(
    "arguments",
    [["x", "--from", "f"], ["--from", "f", "--asset", "USDC"], ["x", "--keys", "f"], ["--from", "f", "--fund", "1"]],
)
def test_what_is_in_the_file_is_not_an_option_too(arguments):
    _, error = run("create_agent", *arguments)
    assert "everything about the agents is in the file" in str(error)


def test_an_agent_that_is_made_meanwhile_ends_the_run_in_a_sentence(write):
    (name,) = names(1)
    path = write(f"{name},USDC,1,2,3")
    new = read_agent_file(path).new
    make(path)

    with pytest.raises(OperationRefused, match="already"):
        agent_making.make_agents(new, keys=None, by="test", reason="", report=print)


def test_many_wrong_lines_are_named_up_to_fifty(write):
    with pytest.raises(CommandError, match="and 10 more lines"):
        read_agent_file(write(*("x" for _ in range(60))))
