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

from allowance.kernel.assets import Asset
from ledger.models import BalanceMovement, MovementKind
from ledger.operations import adjust_balance, fund_agent
from payments.books import find_imbalances, find_unattributed
from payments.chains.registry import served_chains
from payments.models import ChainState, DepositCursor
from payments.reconciliation import reconcile
from policy.models import Agent
from tests.answers import error_of
from tests.chains import LOCALNET
from tests.factories import make_agent, make_service, new_address
from tests.nodes import known

SOLANA = "solana:344CYC6QPrjfKUUBqcXLDFNyf9NBqJLa"
STABLE = {"USDC", "USDT", "PYUSD", "EURC"}
ASSETS = {LOCALNET: STABLE, SOLANA: STABLE | {"SOL"}}


def book(asset: str, amount: Decimal, chain: str | None = LOCALNET) -> None:
    """Book a signed amount on an embedded chain, long ago, or on none that is named."""
    agent = make_agent(asset=Asset(asset), balance="0")
    if amount < 0:
        fund_agent(agent.id, amount=-amount, by="test", chain="another")
        adjust_balance(agent.id, amount=amount, by="test", reason="A test", chain=chain)
    if amount > 0:
        Agent.objects.filter(pk=agent.pk).update(balance=amount)
        BalanceMovement.objects.create(
            agent=agent, kind=MovementKind.ADJUSTMENT, amount=amount, balance_after=amount, chain=chain,
            author="test", reason="A test", created_at=datetime(2020, 1, 1, tzinfo=UTC),
        )  # fmt: skip


@pytest.fixture
def booked(db: None) -> None:
    """Let the ledger say just what the embedded chains' escrows hold, whatever other tests left; rolled back."""
    for chain, adapter in served_chains().items():
        searched = {"block_number": adapter.find_finality().block_number, "moved_at": datetime.now(UTC)}
        DepositCursor.objects.update_or_create(chain=chain, defaults=searched)
        for row in reconcile(chain, adapter):
            book(row.asset, row.holds - row.booked, chain)
    for asset, total in find_unattributed().items():
        book(asset, -total, None)
    for one in find_imbalances():
        agent = make_agent(asset=Asset(one.asset), balance="1000000")
        Agent.objects.filter(pk=agent.pk).update(balance=F("balance") + one.explained - one.balances)


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
    assert (result["notCompared"], result["unattributed"], result["imbalances"]) == ({}, {}, {})
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
def test_what_was_booked_without_saying_on_which_chain_is_told_apart(settings):
    settings.CHAINS = settings.CHAINS | {"another": settings.CHAINS[LOCALNET]}
    make_agent(asset=Asset.EURC, balance="5")

    table, result, _ = run()

    assert f"Booked by hand without a chain: {result['unattributed']['EURC']} EURC" in table


@pytest.mark.usefixtures("booked")
@pytest.mark.parametrize("chain", [LOCALNET, SOLANA])
def test_a_surplus_ends_with_status_0(chain):
    book("USDT", Decimal(-1), chain)

    _, result, is_well = run()

    assert is_well
    assert {row["chain"]: row["drift"] for row in result["comparisons"] if row["asset"] == "USDT"}[chain] == "1.00"


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
