"""`manage.py reconcile`, `stop_chain` and `start_chain`."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.models import F
from solders.keypair import Keypair

from foundation.kernel.assets import Asset
from ledger.operations import adjust_balance, fund_agent
from payments.models import ChainState, DepositCursor, Outflow
from policy.models import Agent
from tests.support.answers import error_of
from tests.support.embedded_nodes import known
from tests.support.factories import make_agent, make_service, new_address, new_name
from tests.support.local_ids import LOCALNET
from tests.support.reconciliations import fit_books

SOLANA = "solana:344CYC6QPrjfKUUBqcXLDFNyf9NBqJLa"
STABLE = {"USDC", "USDT", "PYUSD", "EURC"}
ASSETS = {LOCALNET: STABLE, SOLANA: STABLE | {"SOL"}}


def book(asset: str, amount: Decimal, chain: str = LOCALNET) -> None:
    """Book a signed amount on an embedded chain, whatever covers it."""
    agent = make_agent(asset=Asset(asset), balance="0")
    if amount < 0:
        fund_agent(agent.id, amount=-amount, by="test", chain="another")
    if amount:
        adjust_balance(agent.id, amount=amount, by="test", reason="A test", chain=chain)


@pytest.fixture
def booked(db: None) -> None:
    """Let the ledger say just what the embedded chains' escrows hold, whatever other tests left; rolled back."""
    fit_books(LOCALNET, SOLANA)


def run(*arguments: str) -> tuple[str, dict[str, Any], bool]:
    """Run `reconcile`; returns what it printed, its last line, and whether all is well."""
    out, is_well = StringIO(), True
    try:
        call_command("reconcile", *arguments, stdout=out, stderr=out)
    except CommandError:
        is_well = False
    table, _, last = out.getvalue().rstrip().rpartition("\n")
    return table, json.loads(last), is_well


@pytest.mark.usefixtures("booked")
@pytest.mark.parametrize(
    ("arguments", "chains"),
    [
        ((), [LOCALNET, SOLANA]),
        (("--all",), [LOCALNET, SOLANA]),
        (("--chain", "evm-localnet"), [LOCALNET]),
        (("--chain", LOCALNET), [LOCALNET]),
        (("--chain", "solana-localnet"), [SOLANA]),
        (("--chain", SOLANA), [SOLANA]),
    ],
)
def test_what_fits_is_shown_and_ends_with_status_0(arguments, chains):
    table, result, is_well = run(*arguments)

    assert is_well, table
    found = {(row["chain"], row["asset"]): row for row in result["comparisons"]}
    assert set(found) == {(chain, asset) for chain in chains for asset in ASSETS[chain]}
    assert {(row["verdict"], row["drift"]) for row in found.values()} == {("ok", "0.00")}
    assert (result["notCompared"], result["imbalances"], result["outflows"]) == ({}, {}, [])
    assert {pool["surplus"] for pool in result["pools"]} == {"0.00"}
    assert {pool["asset"] for pool in result["pools"]} == {asset for _, asset in found}
    assert "promised" in table
    assert all(found[chain, "USDC"]["holds"] in table for chain in chains)


@pytest.mark.usefixtures("booked")
@pytest.mark.parametrize("chain", [LOCALNET, SOLANA])
def test_missing_money_ends_with_status_1(chain):
    book("USDT", Decimal("1000000.5"), chain)

    table, result, is_well = run()

    assert not is_well
    assert {row["chain"]: row["verdict"] for row in result["comparisons"] if row["asset"] == "USDT"} == {
        LOCALNET: "ok",
        SOLANA: "ok",
        chain: "missing",
    }
    assert "missing" in table


@pytest.mark.usefixtures("booked")
@pytest.mark.parametrize("chain", [LOCALNET, SOLANA])
def test_a_surplus_is_shown_as_such_and_ends_with_status_0(chain):
    book("USDT", Decimal(-1), chain)

    table, result, is_well = run()

    assert is_well, table
    assert "surplus" not in table.partition("\n")[2].partition("all chains")[0]  # it is no verdict
    assert {row["chain"]: row["drift"] for row in result["comparisons"] if row["asset"] == "USDT"}[chain] == "1.00"


@pytest.mark.usefixtures("booked")
def test_too_much_that_is_promised_ends_with_status_1_and_stops_every_chain_of_the_asset():
    agent = make_agent(asset=Asset.SOL, balance="0")
    Agent.objects.filter(pk=agent.pk).update(balance=Decimal("0.5"))

    table, result, is_well = run("--chain", "solana-localnet")

    assert not is_well
    assert {pool["asset"]: pool["surplus"] for pool in result["pools"]}["SOL"] == "-0.50"
    assert "0.50 too much." in table
    stopped = ChainState.objects.exclude(stopped_reason="").filter(chain__in=[LOCALNET, SOLANA])
    assert [state.chain for state in stopped] == [SOLANA]  # the other one has no SOL


@pytest.mark.usefixtures("booked")
def test_what_left_and_is_not_booked_is_listed_with_the_command_that_books_it():
    outflow = Outflow.objects.create(
        chain=LOCALNET, tx=new_name("tx"), log_index=3, block_number=1, asset=Asset.USDC, amount=Decimal(0),
        why="It is no payment of ours.", found_at=datetime.now(UTC),
    )  # fmt: skip

    table, result, is_well = run()

    assert not is_well
    assert [(one["tx"], one["index"]) for one in result["outflows"]] == [(outflow.tx, 3)]
    assert f"manage.py book_outflow {outflow.tx} --index 3 (--agent ID | --loss) --reason R" in table
    out = StringIO()
    call_command("start_chain", "evm-localnet", stdout=out, stderr=out)
    assert outflow.tx in out.getvalue()
    assert json.loads(out.getvalue().splitlines()[-1])["openOutflows"] == 1

    call_command("book_outflow", outflow.tx, "--loss", "--reason", "A void", stdout=StringIO())
    assert run()[2]


@pytest.mark.usefixtures("booked")
def test_balances_that_do_not_add_up_end_with_status_1():
    agent = make_agent()
    Agent.objects.filter(pk=agent.pk).update(balance=F("balance") - Decimal("0.5"))

    table, result, is_well = run()

    assert (is_well, result["imbalances"]) == (False, {"USDC": "-0.50"})
    assert "balances in USDC" in table


@pytest.mark.usefixtures("booked")
@pytest.mark.parametrize(("chain", "other"), [(LOCALNET, SOLANA), (SOLANA, LOCALNET)])
def test_what_cannot_be_compared_now_ends_with_status_1_and_the_other_chain_is_compared(chain, other):
    DepositCursor.objects.filter(chain=chain).delete()

    _, result, is_well = run()

    assert (is_well, list(result["notCompared"])) == (False, [chain])
    assert {row["chain"] for row in result["comparisons"]} == {other}


@pytest.mark.parametrize("name", ["base", "nowhere"])
@pytest.mark.parametrize("command", [("reconcile", "--chain"), ("start_chain",), ("stop_chain", "--reason", "R")])
def test_a_chain_that_is_not_served_is_refused(db, command, name):
    with pytest.raises(CommandError, match=f"{name} is not served"):
        call_command(*command, name)


@pytest.mark.parametrize(("alias", "other"), [("evm-localnet", "solana-localnet"), ("solana-localnet", "evm-localnet")])
def test_a_stopped_chain_refuses_payments_with_503_until_it_is_started_and_the_other_goes_on(api, alias, other):
    payment = payment_on(alias)
    call_command("stop_chain", alias, "--reason", "Under inquiry")
    error = error_of(api.pay(payment, "one key"), 503, "policy_signer_unavailable")
    assert "Signing is stopped" in str(error)
    assert ChainState.objects.get(pk=known(alias).caip2).stopped_reason == "Under inquiry"
    assert api.pay(payment_on(other)).status_code == 201

    call_command("start_chain", alias)

    assert api.pay(payment, "one key").status_code == 201


def payment_on(alias: str) -> dict[str, Any]:
    """Make a request body that is approved as it is, for a payee on an embedded chain."""
    address = new_address() if alias == "evm-localnet" else str(Keypair().pubkey())
    service = make_service(asset=Asset.PYUSD, recipient=f"{alias}:{address}")
    agent = make_agent(asset=Asset.PYUSD)
    return {"agentId": agent.id, "service": service.id, "amount": "1.00", "asset": "PYUSD", "reason": "A test"}


@pytest.mark.parametrize("reason", ["", " ", "x" * 501])
def test_a_chain_is_stopped_for_a_reason(db, reason):
    with pytest.raises(CommandError, match="reason"):
        call_command("stop_chain", "evm-localnet", "--reason", reason)
