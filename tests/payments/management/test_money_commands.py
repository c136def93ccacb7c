"""The commands that move balances: credits out of a surplus, withdrawals with what their owner signs, outflows."""

import json
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from ledger.models import BalanceMovement
from payments.models import Outflow, Withdrawal
from policy.models import Agent
from tests.support.evm_escrow import escrow
from tests.support.factories import make_agent, new_address, new_name
from tests.support.local_ids import LOCALNET, SOLANA_LOCALNET
from tests.support.reconciliations import make_agent_with_surplus

LIMITS = ["--max-per-payment", "10", "--daily-limit", "50", "--weekly-limit", "100"]
Run = Callable[..., Any]


@pytest.fixture
def run(db: None, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command as from a shell; return what its last line says."""

    def call(*arguments: str) -> Any:
        call_command(*arguments)
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    return call


@pytest.fixture
def agent(db: None) -> Agent:
    """1000 USDC; the embedded escrows hold what is promised, and 20 USDC on the EVM chain, 5 on Solana beyond that."""
    return make_agent_with_surplus()


def newest(agent: Agent) -> BalanceMovement:
    return BalanceMovement.objects.filter(agent=agent)[0]


def balance(agent: Agent) -> Any:
    return Agent.objects.get(pk=agent.pk).balance


@pytest.mark.parametrize("command", ["withdraw_funds", "adjust_balance", "fund_agent", "create_agent", "book_outflow"])
def test_a_command_explains_itself(command, capsys):
    with pytest.raises(SystemExit) as end:
        call_command(command, "--help")

    assert end.value.code == 0
    assert "agent" in capsys.readouterr().out


# --- Credits ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("command", "left", "moved"),
    [
        (["adjust_balance", "--amount=-0.5", "--chain", "solana-localnet"], "999.50", ("adjustment", SOLANA_LOCALNET)),
        (["adjust_balance", "--amount=-0.5"], "999.50", ("adjustment", LOCALNET)),
        (["adjust_balance", "--amount=+2", "--chain", LOCALNET], "1002.00", ("adjustment", LOCALNET)),
        (["fund_agent", "5", "--chain", "Solana-localnet"], "1005.00", ("funding", SOLANA_LOCALNET)),
        (["fund_agent", "20"], "1020.00", ("funding", LOCALNET)),
    ],
)
def test_a_command_books_a_movement_on_a_chain_and_prints_the_budget(run, agent, command, left, moved):
    name, *rest = command

    printed = run(name, agent.id, *rest, "--reason", "Ticket 7")

    movement = newest(agent)
    assert (printed["agentId"], printed["balance"]) == (agent.id, left)
    assert (movement.kind, movement.chain) == moved
    assert (movement.author, movement.reason) == ("command line", "Ticket 7")


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (["fund_agent", "20.01"], r"20\.01 USDC are not covered: .* on evm-localnet is 20\.00"),
        (["fund_agent", "5.01", "--chain", "solana-localnet"], r"on solana-localnet is 5\.00"),
        (["adjust_balance", "--amount=1000", "--reason", "x"], "1000.00 USDC are not covered"),
        (["adjust_balance", "--amount=0", "--reason", "x"], "greater than zero"),
        (["adjust_balance", "--amount=-1000.01", "--reason", "x"], "The balance of"),
        (["adjust_balance", "--amount=1"], "--reason"),
        (["fund_agent", "1", "--chain", "moon"], "There is no chain moon"),
        (["fund_agent", "1", "--chain", "base"], "No escrow of USDC is served"),
        (["fund_agent", "0"], "greater than zero"),
        (["fund_agent", "x"], "amount"),
        (["fund_agent", "1e3"], "amount"),
        (["fund_agent", "0.0000001"], "6 decimals"),
    ],
)
def test_a_command_refuses_in_a_sentence_and_books_nothing(run, agent, command, sentence):
    name, *rest = command
    before = BalanceMovement.objects.filter(agent=agent).count()

    with pytest.raises(CommandError, match=sentence):
        run(name, agent.id, *rest)

    assert balance(agent) == 1000
    assert BalanceMovement.objects.filter(agent=agent).count() == before


@pytest.mark.usefixtures("agent")
def test_create_agent_funds_out_of_a_surplus(run):
    name = new_name("agent")

    printed = run("create_agent", name, "--asset", "USDC", *LIMITS, "--fund", "12.5")

    assert printed["balance"] == "12.50"
    assert BalanceMovement.objects.get(agent_id=name).chain == LOCALNET


@pytest.mark.usefixtures("agent")
@pytest.mark.parametrize("amount", ["0", "20.01"])
def test_create_agent_leaves_nothing_if_it_cannot_fund(run, amount):
    name = new_name("agent")

    with pytest.raises(CommandError):
        run("create_agent", name, "--asset", "USDC", *LIMITS, "--fund", amount)

    assert not Agent.objects.filter(pk=name).exists()


@pytest.mark.parametrize("command", ["fund_agent", "adjust_balance"])
def test_an_agent_that_does_not_exist_is_refused_in_a_sentence(run, command):
    amount = ["1"] if command == "fund_agent" else ["--amount=1", "--reason", "x"]

    with pytest.raises(CommandError, match=r"There is no agent nobody\."):
        run(command, "nobody", *amount)


# --- Withdrawals ------------------------------------------------------------------------------------------------------
def withdraw(agent: Agent, *more: str) -> list[str]:
    return ["withdraw_funds", agent.id, "10", "--to", new_address(), "--reason", "Ticket 7", "--no-wait", *more]


def test_a_withdrawal_is_booked_and_its_owner_is_told_what_to_sign(run, agent):
    printed = run(*withdraw(agent, "--chain", "evm-localnet"))

    withdrawal = Withdrawal.objects.get(reference=printed["reference"])
    assert (printed["state"], printed["agent"], printed["amount"]) == ("open", agent.id, "10.00")
    assert (printed["escrow"], printed["recipient"]) == (escrow(), withdrawal.recipient)
    assert printed["toSign"]["call"]["to"] == escrow()
    assert json.loads(printed["toSign"]["safe"])["transactions"][0]["data"] == printed["toSign"]["call"]["data"]
    assert (balance(agent), newest(agent).author) == (990, "command line")

    again = run("withdraw_funds", "--show", printed["reference"], "--no-wait")
    assert again == printed


def test_a_withdrawal_is_cancelled_with_a_reason(run, agent):
    reference = run(*withdraw(agent, "--chain", "evm-localnet"))["reference"]

    with pytest.raises(CommandError, match="Say who cancels"):
        run("withdraw_funds", "--cancel", reference)
    printed = run("withdraw_funds", "--cancel", reference, "--reason", "Wrong address")

    assert (printed["state"], balance(agent)) == ("cancelled", 1000)
    assert run("withdraw_funds", "--show", reference)["toSign"] == {}


def test_a_withdrawal_need_not_name_the_only_chain_that_has_the_asset(run):
    agent, to = make_agent(asset=Asset.SOL), "4Nd1mYvJgRzM2cZ2gP7zqDqg8jxTz1rH4mQb3Xy7aKcD"

    printed = run("withdraw_funds", agent.id, "0.000000001", "--to", to, "--reason", "Ticket 7", "--no-wait")

    assert (printed["chain"], printed["recipient"]) == (SOLANA_LOCALNET, to)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["1000.01", "--to", new_address(), "--chain", LOCALNET, "--reason", "x"], r"The balance of .* is 1000\.00"),
        (["1", "--to", new_address(), "--reason", "x"], "2 served chains have USDC: name the one"),
        (["1", "--to", new_address(), "--chain", LOCALNET], "Give the author"),
        (["1", "--chain", LOCALNET, "--reason", "x"], "Give the agent, the amount and --to"),
        (["1", "--to", "0x12", "--chain", LOCALNET, "--reason", "x"], "Recipient"),
        (["1", "--to", new_address(), "--chain", "moon", "--reason", "x"], "moon is not served"),
        ([], "Give the agent"),
    ],
)
def test_a_withdrawal_is_refused_in_a_sentence(run, agent, arguments, sentence):
    with pytest.raises(CommandError, match=sentence):
        run("withdraw_funds", agent.id, *arguments, "--no-wait")

    assert balance(agent) == 1000


@pytest.mark.usefixtures("committed")
def test_the_command_waits_until_the_tokens_have_left():
    agent, printed = make_agent(), StringIO()
    arguments = ["withdraw_funds", agent.id, "1", "--to", new_address(), "--chain", LOCALNET, "--reason", "R"]

    def wait() -> None:
        try:
            call_command(*arguments, stdout=printed, stderr=StringIO())
        finally:
            connection.close()

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not Withdrawal.objects.filter(agent=agent).exists():
        time.sleep(0.05)
    Withdrawal.objects.filter(agent=agent).update(landed_block=7, landed_tx="0xabc")
    waiting.join(30)

    result = json.loads(printed.getvalue().splitlines()[-1])
    assert (result["state"], result["tx"]) == ("landed", "0xabc")


# --- Outflows ---------------------------------------------------------------------------------------------------------
def outflow(tx: str, index: int) -> Outflow:
    row: Outflow = Outflow.objects.create(
        chain=LOCALNET, tx=tx, log_index=index, block_number=1, asset=Asset.USDC, amount=Decimal(3),
        why="A test", found_at=utc_now(),
    )  # fmt: skip
    return row


def test_an_outflow_is_booked_by_its_transaction_and_its_index_if_that_has_several(run, agent):
    tx = new_name("tx")
    outflow(tx, 0)
    outflow(tx, 4)
    with pytest.raises(CommandError, match=r"2 outflows are known of .*: give --index, one of 0, 4"):
        run("book_outflow", tx, "--loss", "--reason", "R")

    printed = run("book_outflow", tx, "--index", "4", "--agent", agent.id, "--reason", "R")

    assert (printed["index"], printed["amount"], printed["agent"]) == (4, "3.00", agent.id)
    assert balance(agent) == 997
    assert Outflow.objects.get(tx=tx, log_index=0).state == "open"


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--loss", "--reason", "R"], "No outflow is known of nothing"),
        (["--index", "1", "--loss", "--reason", "R"], "No outflow is known of nothing with the index 1"),
        (["--reason", "R"], "Give one of --agent ID and --loss"),
        (["--all", "--reason", "R"], "Give a transaction, or --all"),
        (["--from", "a file", "--loss", "--reason", "R"], "--from goes with --all"),
        (["--loss"], "--reason"),
        (["--loss", "--agent", "a", "--reason", "R"], "not allowed with"),
    ],
)
def test_a_booking_is_refused_in_a_sentence(run, more, sentence):
    with pytest.raises(CommandError, match=sentence):
        run("book_outflow", "nothing", *more)
