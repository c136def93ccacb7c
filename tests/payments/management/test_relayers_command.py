"""`manage.py relayers`: gas money, nonces, what is under way, and whether it adds up."""

import json
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from foundation.kernel.errors import PolicySignerUnavailable
from payments.models import Relayer
from tests.support.evm_escrow import rpc
from tests.support.factories import decide, make_agent, make_service
from tests.support.fake_chain import make_fake_chain
from tests.support.local_ids import LOCALNET, SOLANA_LOCALNET
from tests.support.localnets import EVM, SOLANA

pytestmark = pytest.mark.django_db


def relayers(*arguments: str) -> tuple[str, list[dict[str, Any]]]:
    out = StringIO()
    call_command("relayers", *arguments, stdout=out)
    table, _, last = out.getvalue().rstrip().rpartition("\n")
    return table, json.loads(last)["relayers"]


def row_of(relayer: Relayer) -> dict[str, Any]:
    return next(row for row in relayers()[1] if row["address"] == relayer.address)


@pytest.fixture
def relayer(db: None) -> Relayer:
    EVM.drain()
    return Relayer.objects.filter(chain=LOCALNET).order_by("number")[0]


def test_each_relayer_is_shown_with_what_the_chain_says_of_it_now(relayer):
    table, rows = relayers("--chain", "evm-localnet")

    assert len(rows) == Relayer.objects.filter(chain=LOCALNET).count() >= 2
    assert all(row["address"] in table for row in rows)
    row = row_of(relayer)
    assert row["minedNonce"] == row["nextNonce"] == int(rpc("eth_getTransactionCount", relayer.address, "latest"), 16)
    assert Decimal(row["balance"]) == Decimal(int(rpc("eth_getBalance", relayer.address, "latest"), 16)).scaleb(-18)
    assert (row["waiting"], row["included"], row["drift"], row["inRotation"]) == (0, 0, 0, True)


def test_the_relayer_of_a_chain_without_nonces_shows_none_of_them(db):
    SOLANA.drain()
    SOLANA.observe()
    decide(make_agent(), SOLANA.make_service())

    table, (row,) = relayers("--chain", "solana-localnet")

    lamports = int(SOLANA.rpc("getBalance", row["address"], {"commitment": "confirmed"})["value"])
    assert row["address"] == SOLANA.adapter.preparer.relayer_address(0)
    assert (row["chain"], row["nextNonce"], row["minedNonce"], row["drift"]) == (SOLANA_LOCALNET, None, None, 0)
    assert (row["waiting"], row["included"], row["inRotation"]) == (1, 0, True)
    assert Decimal(row["balance"]) == Decimal(lamports).scaleb(-9)
    assert "None" not in table
    assert row["address"] in table


def test_what_waits_for_a_block_is_counted_and_is_no_drift(relayer):
    before = {row["address"]: row for row in relayers()[1]}
    decide(make_agent(), make_service())

    changed = [row for row in relayers()[1] if row["nextNonce"] != before[row["address"]]["nextNonce"]]

    assert [(row["waiting"], row["drift"]) for row in changed] == [(1, 0)]


def test_a_nonce_that_was_given_out_and_that_nothing_uses_is_drift(relayer):
    Relayer.objects.filter(pk=relayer.pk).update(next_nonce=relayer.next_nonce + 2)

    assert row_of(relayer)["drift"] == 2


def test_a_chain_that_is_ahead_is_drift_below_zero(relayer):
    Relayer.objects.filter(pk=relayer.pk).update(next_nonce=max(0, relayer.next_nonce - 1))

    assert row_of(relayer)["drift"] == -min(1, relayer.next_nonce)


def test_a_relayer_whose_gas_money_is_taken_up_is_shown_to_get_no_payments(relayer):
    Relayer.objects.filter(pk=relayer.pk).update(funded_until=relayer.next_nonce)

    table, rows = relayers("--chain", "evm-localnet")

    assert next(row for row in rows if row["address"] == relayer.address)["inRotation"] is False
    assert "its gas money is needed" in table


def test_a_disabled_relayer_gets_no_payments_until_it_is_enabled_again(relayer):
    others = Relayer.objects.filter(chain=LOCALNET).exclude(pk=relayer.pk)
    others.update(is_enabled=False)

    relayers("--chain", "evm-localnet", "--disable", relayer.address)
    assert row_of(relayer)["inRotation"] is False
    assert decide_or_none() is None

    relayers("--chain", "evm-localnet", "--enable", relayer.address)
    assert decide_or_none() is not None


def decide_or_none() -> str | None:
    try:
        return decide(make_agent(), make_service()).tx
    except PolicySignerUnavailable:
        return None


def test_an_unknown_chain_or_relayer_is_named(relayer):
    with pytest.raises(CommandError, match="nowhere is not served here"):
        relayers("--chain", "nowhere")
    with pytest.raises(CommandError, match="has no relayer 0x00"):
        relayers("--chain", "evm-localnet", "--disable", "0x00")


def test_chains_that_are_not_served_here_are_not_asked(relayer):
    chain = make_fake_chain()

    assert chain.name not in {row["chain"] for row in relayers()[1]}


def test_it_says_for_how_many_payments_the_gas_money_lasts(relayer):
    table, rows = relayers("--chain", "evm-localnet")

    row, costs = row_of(relayer), EVM.adapter.preparer.find_payment_costs(EVM.adapter.observer.observe())
    assert row["paymentsNow"] == Decimal(row["balance"]) // costs.now > row["paymentsAtHighestPrice"]
    assert row["paymentsAtHighestPrice"] == Decimal(row["balance"]) // costs.highest
    now, highest = (sum(one[name] for one in rows) for name in ("paymentsNow", "paymentsAtHighestPrice"))
    assert f"Gas money for {now:,} payments at today's price, for {highest:,} at the highest." in table


@pytest.mark.parametrize("chain", ["evm-localnet", "solana-localnet"])
def test_on_a_fresh_installation_it_shows_the_relayers_that_wait_for_the_watcher(db, chain):
    before = relayers("--chain", chain)[1]
    Relayer.objects.all().delete()

    table, rows = relayers("--chain", chain)

    assert [row["address"] for row in rows] == [row["address"] for row in before]
    assert [row["balance"] for row in rows] == [row["balance"] for row in before]
    assert {row["inRotation"] for row in rows} == {False}
    assert f"{len(rows)} wait for the watcher, which begins once a worker runs." in table


def test_before_there_are_tables_it_says_what_makes_them(db):
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE payments_relayer RENAME TO payments_relayer_gone")

    with pytest.raises(CommandError, match="The database has no tables yet: `release` makes them"):
        relayers()
