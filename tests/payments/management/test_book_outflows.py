"""Many outflows are booked by one command: shown first, asked once, each booked once, whenever it is interrupted."""

import io
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as configured
from django.db import connection, transaction

from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from ledger.models import BalanceMovement
from payments.deciding.escrow_ids import key_hash
from payments.models import Installation, Outflow
from payments.proposals import BOOK
from policy.models import Agent
from staff.models import AuditEntry
from staff.second_person import Proposal, propose
from tests.crash.installation import wait_until
from tests.staff.people import make_user
from tests.support.commands import run
from tests.support.factories import make_agent, new_name
from tests.support.house import server_environment
from tests.support.invariants import check_agent
from tests.support.local_ids import LOCALNET
from tests.support.scenes import at_once

WHY = ("--reason", "Paid after the backup")


class Tail:
    """Outflows that a backup has forgotten, and a file in which agents name their keys."""

    def __init__(self, folder: Path, *agents: Agent, amount: str = "1.00") -> None:
        salt = bytes(Installation.objects.get().salt)
        self.outflows: list[Outflow] = []
        self.file = folder / "tail.jsonl"
        with self.file.open("w") as file:
            for agent in agents:
                key = new_name("key")
                escrow_id = f"0x{key_hash(salt, agent.id, key).hex()}"
                file.write(json.dumps({"agentId": agent.id, "idempotencyKey": key}) + "\n")
                self.outflows.append(make_outflow(asset=agent.asset, amount=Decimal(amount), escrow_id=escrow_id))

    def open(self) -> int:
        return Outflow.objects.filter(pk__in=[one.pk for one in self.outflows], booked_at=None).count()

    def bookings(self) -> list[AuditEntry]:
        subjects = [str(one.pk) for one in self.outflows]
        return list(AuditEntry.objects.filter(action="outflow.booked", subject__in=subjects))


def make_outflow(**changes: Any) -> Outflow:
    facts = {"chain": LOCALNET, "tx": f"0x{new_name('tx')}", "log_index": 0, "block_number": 1, "why": "A test."}
    facts |= {"asset": "USDC", "amount": Decimal(1), "found_at": utc_now()}
    row: Outflow = Outflow.objects.create(**(facts | changes))
    return row


def book(*arguments: Any) -> tuple[Any, str, str | None]:
    """Book all that are open; returns what the last line says, what was shown before it, and the error."""
    lines, error = run("book_outflow", "--all", *map(str, arguments), *WHY)
    answer = json.loads(lines.pop()) if error is None else None
    return answer, "\n".join(lines), error


def balance(agent: Agent) -> Any:
    return Agent.objects.get(pk=agent.pk).balance


@pytest.fixture
def agents(db: None) -> list[Agent]:
    return [make_agent(), make_agent()]


def test_all_whose_agents_are_known_are_booked_by_one_command_each_on_record(agents, tmp_path):
    first, second = agents
    tail = Tail(tmp_path, first, second, first)

    answer, shown, error = book("--from", tail.file, "--yes")

    assert error is None
    assert answer["booked"] == 3
    assert [balance(one) for one in agents] == [998, 999]
    lines = {line.split()[3]: line.split() for line in shown.splitlines()[1:3]}
    assert lines == {
        first.id: ["2", "2.00", "USDC", first.id, "2", "-"],
        second.id: ["1", "1.00", "USDC", second.id, "1", "-"],
    }
    assert {one["agent"]: (one["outflows"], one["amount"], one["proven"]) for one in answer["as"]} == {
        first.id: (2, "2.00", 2),
        second.id: (1, "1.00", 1),
    }
    assert [(one.author, (one.after or {})["agentId"]) for one in tail.bookings()] == [
        ("command line", first.id),
        ("command line", second.id),
        ("command line", first.id),
    ]
    assert {one.reason for one in tail.bookings()} == {
        f"Paid after the backup (by tail.jsonl, line {number})" for number in (1, 2, 3)
    }
    for agent in agents:
        check_agent(agent.id)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("yes\n", None),
        (" Yes \n", None),
        ("y\n", "Nothing was booked."),
        ("\n", "Nothing was booked."),
        ("", "Nothing was booked. There is nobody to ask: --yes goes on without asking."),
    ],
)
def test_it_shows_first_and_asks_once(agents, tmp_path, monkeypatch, typed, said):
    tail = Tail(tmp_path, agents[0])
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))

    _, shown, error = book("--from", tail.file)

    assert agents[0].id in shown
    assert (tail.open(), error) == (0 if said is None else 1, said)


def test_what_nothing_is_known_of_stays_open_unless_somebody_says_what_it_is(agents, tmp_path):
    tail, strange = Tail(tmp_path, agents[0]), make_outflow(amount=Decimal(7))

    answer, shown, _ = book("--from", tail.file, "--yes")

    assert [(one["tx"], one["why"]) for one in answer["notBooked"]] == [(strange.tx, "Nothing says whose it was.")]
    assert f"Not booked: evm-localnet, {strange}" in shown
    again, shown, _ = book("--loss", "--yes")
    assert (again["booked"], again["notBooked"]) == (1, [])
    assert "nobody: no balance falls" in shown
    strange.refresh_from_db()
    assert (strange.state, strange.movement, strange.note) == ("booked", None, "Paid after the backup (by you)")
    third = make_outflow(amount=Decimal(7))
    assert book("--agent", agents[1].id, "--yes")[0]["booked"] == 1
    assert balance(agents[1]) == 993
    third.refresh_from_db()
    assert third.movement is not None


def test_a_word_is_shown_as_what_it_is_and_is_no_proof(agents, tmp_path):
    outflow, file = make_outflow(), tmp_path / "from somebody.csv"
    file.write_text(f"tx,agent\n{outflow.tx},{agents[0].id}\n")

    answer, shown, _ = book("--from", file, "--yes")

    assert answer["as"] == [
        {"agent": agents[0].id, "outflows": 1, "proven": 0, "amount": "1.00", "asset": "USDC"},
    ]
    assert shown.splitlines()[1].endswith(f"{agents[0].id:<32}        0  from somebody.csv")


def test_whoever_says_what_the_rest_is_does_not_overrule_a_contradiction(agents, tmp_path):
    tail, file = Tail(tmp_path, agents[0]), tmp_path / "false.csv"
    file.write_text(f"tx,agent\n{tail.outflows[0].tx},{agents[1].id}\n")

    answer, _, _ = book("--from", tail.file, "--from", file, "--agent", agents[1].id, "--yes")

    assert (answer["booked"], tail.open()) == (0, 1)
    assert "one of the two is wrong" in answer["notBooked"][0]["why"]
    assert [balance(one) for one in agents] == [1000, 1000]


def test_what_an_agent_cannot_bear_is_shown_before_anything_is_booked(db, tmp_path):
    poor, euro = make_agent(balance="2"), make_agent(asset=Asset.EURC)
    tail, other = Tail(tmp_path, poor, poor, poor), make_outflow()
    file = tmp_path / "more.csv"
    file.write_text(f"tx,agent\n{other.tx},{euro.id}\n{make_outflow().tx},nobody\n")

    answer, _, _ = book("--from", tail.file, "--from", file, "--yes")

    assert (answer["booked"], tail.open(), balance(poor)) == (2, 1, 0)
    assert sorted(one["why"] for one in answer["notBooked"]) == [
        f"The allowance of {euro.id} is in EURC.",
        f"The balance of {poor.id}, 2.00 USDC, does not cover it: credit anew what the backup has forgotten.",
        "There is no agent nobody: make it anew, if the backup has forgotten it.",
    ]


def test_what_moved_nothing_is_nobodys(db):
    voided = make_outflow(amount=Decimal(0), asset=None)

    answer, _, _ = book("--yes")

    voided.refresh_from_db()
    assert (answer["booked"], voided.state, voided.movement) == (1, "booked", None)


@pytest.mark.usefixtures("db")
def test_without_anything_to_book_nobody_is_asked():
    answer, shown, error = book()
    assert (answer, error) == ({"booked": 0, "as": [], "notBooked": []}, None)
    assert shown == "There is nothing that can be booked."


def test_again_it_books_nothing_twice(agents, tmp_path):
    tail = Tail(tmp_path, *agents)
    book("--from", tail.file, "--yes")

    answer, _, _ = book("--from", tail.file, "--yes")

    assert (answer["booked"], len(tail.bookings())) == (0, 2)
    assert [balance(one) for one in agents] == [999, 999]


def test_what_waits_in_the_console_for_a_second_person_is_left_to_the_two(agents, tmp_path, settings):
    settings.FOUR_EYES = True
    tail = Tail(tmp_path, *agents)
    asked, person = tail.outflows[0], make_user("payments.change_outflow")
    propose(
        Proposal(BOOK, "outflow", str(asked.pk), {"outflow": asked.pk, "agent": None}, [("It was", "a loss")], "R"),
        by=person,
    )

    answer, _, _ = book("--from", tail.file, "--yes")

    assert (answer["booked"], answer["notBooked"][0]["tx"]) == (1, asked.tx)
    assert answer["notBooked"][0]["why"].startswith("In the console it waits for a second person")


@pytest.mark.parametrize("reason", ["", " ", "x" * 351])
def test_a_reason_is_given_that_can_be_kept(agents, tmp_path, reason):
    tail = Tail(tmp_path, agents[0])

    _, error = run("book_outflow", "--all", "--from", str(tail.file), "--yes", "--reason", reason)

    assert error == "Give a reason of 1 to 350 characters."
    assert tail.open() == 1


# --- At once, and cut short -------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("committed")
def test_two_who_book_the_same_list_at_once_book_each_once(tmp_path):
    agent = make_agent()
    tail = Tail(tmp_path, *[agent] * 20)

    at_once([lambda: book("--from", tail.file, "--yes")] * 2)

    assert (tail.open(), len(tail.bookings()), balance(agent)) == (0, 20, 980)
    check_agent(agent.id)


@pytest.mark.usefixtures("committed")
def test_a_run_that_is_killed_goes_on_when_it_is_begun_again(tmp_path):
    agent, held = make_agent(), make_agent()
    tail = Tail(tmp_path, *[agent] * 5, held, *[agent] * 5)
    command = [sys.executable, "manage.py", "book_outflow", "--all", "--from", str(tail.file), "--yes", *WHY]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT FROM policy_agent WHERE id = %s FOR UPDATE", [held.pk])
        process = subprocess.Popen(
            command, env=server_environment(), cwd=configured.BASE_DIR,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            wait_until(lambda: tail.open() == 6 or process.poll() is not None, "it waits for an agent")
        finally:
            process.kill()
            process.wait()
    assert (tail.open(), balance(agent), balance(held)) == (6, 995, 1000)

    answer, _, _ = book("--from", tail.file, "--yes")

    assert (answer["booked"], tail.open(), len(tail.bookings())) == (6, 0, 11)
    assert (balance(agent), balance(held)) == (990, 999)
    assert BalanceMovement.objects.filter(outflow__in=tail.outflows).count() == 11
    check_agent(agent.id)
