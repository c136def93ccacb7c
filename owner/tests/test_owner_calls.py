"""`manage.py owner_calls`: what the owner of an escrow has to call does what it says once the owner sends it."""

import json
from typing import Any

import pytest

from foundation.kernel.assets import Asset
from payments.models import Relayer
from services.served_chains import evm_chain
from tests.support.commands import run
from tests.support.evm_escrow import as_owner, call, daily_cap, escrow, rpc, send_as_owner, token
from tests.support.factories import new_address
from tests.support.local_ids import LOCALNET

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("hurried")]


def ask(*arguments: str) -> Any:
    lines, error = run("owner_calls", "evm-localnet", *arguments)
    assert error is None, error
    asked = json.loads(lines[-1])
    assert lines[:-1] == ([asked["safe"]] if asked["safe"] else [])
    return asked


def send(asked: Any) -> None:
    """Send the calls as the owner's wallet would, out of the file for a Safe."""
    batch = json.loads(asked["safe"])
    assert (batch["version"], batch["chainId"]) == ("1.0", "31337")
    calls = [{name: one[name] for name in ("to", "value", "data")} for one in batch["transactions"]]
    assert calls == [{name: one[name] for name in ("to", "value", "data")} for one in asked["calls"]]
    for one in calls:
        assert (one["to"], one["value"]) == (escrow(), "0")
        send_as_owner(one["to"], one["data"])


def read(signature: str, *arguments: Any) -> int:
    return int(rpc("eth_call", {"to": escrow(), "data": call(signature, *arguments)}, "latest"), 16)


def test_where_nothing_is_to_be_called_it_says_so():
    asked = ask()

    assert (asked["calls"], asked["safe"], asked["escrow"]) == ([], None, escrow())
    assert int(asked["owner"], 16) == read("owner()")


def test_the_owner_pauses_the_escrow_and_lets_it_go_on():
    send(ask("--pause"))
    try:
        lines, error = run("chains")
        assert "Nothing is paid on evm-localnet" in str(error)
        assert any("manage.py owner_calls evm-localnet prints what" in line for line in lines)
        assert read("paused()") == 1
    finally:
        send(ask("--unpause"))
    assert read("paused()") == 0


def test_the_owner_caps_assets():
    with daily_cap(Asset.EURC, 7), daily_cap(Asset.USDC, 7):
        send(ask("--daily-cap", "EURC=1.5", "--daily-cap", "USDC=20"))

        assert read("dailyCap(address)", token(Asset.EURC)) == 1_500_000
        assert read("dailyCap(address)", token(Asset.USDC)) == 20_000_000


def test_what_payees_may_take_is_encoded_for_the_owner():
    (asked,) = ask("--x402", "USDC=5,20000.5")["calls"]

    set_limits = "setAuthorizationLimits(address,uint256,uint256)"
    assert asked["data"] == call(set_limits, token(Asset.USDC), 5_000_000, 20_000_500_000)
    (none,) = ask("--x402", "USDC=0,0")["calls"]
    assert none["data"] == call(set_limits, token(Asset.USDC), 0, 0)


def test_the_owner_enables_the_relayers_that_the_escrow_does_not_know():
    relayer = Relayer.objects.get(chain=LOCALNET, number=3)
    as_owner("setRelayer(address,bool)", relayer.address, False)
    try:
        asked = ask()
        assert [one["call"] for one in asked["calls"]] == [f"setRelayer({relayer.address}, true)"]
    finally:
        send(ask())
    assert evm_chain(LOCALNET).inspector.find_mismatches([relayer.address]) == []


def test_what_cannot_be_called_is_refused_in_a_sentence():
    assert "has nothing to call" in str(run("owner_calls", "solana-localnet")[1])
    assert "--daily-cap: Must be ASSET=AMOUNT" in str(run("owner_calls", "evm-localnet", "--daily-cap", "SOL=1")[1])
    assert "not allowed with" in str(run("owner_calls", "evm-localnet", "--pause", "--unpause")[1])
    assert "is not served here" in str(run("owner_calls", new_address())[1])
