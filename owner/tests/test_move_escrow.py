"""`manage.py move_escrow` on the real EVM chain: the runbook of docs/operate/chains.md, tried as it is written."""

import json
from typing import Any

import pytest
from eth_account import Account

from foundation.kernel.assets import Asset
from owner.tests.evm_rotation import OWNER, Escrow, send
from owner.tests.rotations import process, status
from payments.lifecycle import PaymentStatus
from payments.models import ChainState, Outflow, Withdrawal
from payments.reconciling.reconciliation import reconcile
from services.served_chains import evm_chain
from tests.support.commands import run
from tests.support.embedded_nodes import deployer_key
from tests.support.evm_escrow import call, rpc, token
from tests.support.factories import make_service, new_address

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("hurried")]


@pytest.fixture
def escrow() -> Escrow:
    return Escrow()


def move(escrow: Escrow, to: str, *arguments: str, environment: dict[str, str] | None = None) -> tuple[list[str], Any]:
    with pytest.MonkeyPatch.context() as patch, process(escrow.keys, escrow.served):
        for name, value in (OWNER if environment is None else environment).items():
            patch.setenv(name, value)
        return run("move_escrow", "evm-localnet", "--to", to, *arguments)


def result(said: tuple[list[str], Any]) -> dict[str, Any]:
    lines, error = said
    assert error is None, error
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def held(address: str) -> int:
    return int(rpc("eth_call", {"to": token(Asset.USDC), "data": call("balanceOf(address)", address)}, "latest"), 16)


def deploy(escrow: Escrow, owner: str | None = None, cap: str = "USDC=1000") -> dict[str, Any]:
    made: dict[str, Any] = escrow._deploy(escrow.keys, owner or Account.from_key(deployer_key()).address, cap)
    return made


def test_it_waits_for_what_is_in_flight_moves_everything_and_payments_go_on_from_the_new_escrow(escrow):
    old, new = escrow.escrow, deploy(escrow)
    before, after = make_service(), make_service()
    first = escrow.pay(escrow.agent, before, "1.50")

    waiting = result(move(escrow, new["escrow"], "--no-wait"))
    assert (waiting["done"], "1 payments" in waiting["waitingFor"]) == (False, True)
    assert escrow.is_refused()
    assert held(new["escrow"]) == 0

    for _ in range(60):
        escrow.work_until_nothing_is_in_flight()
        escrow.work()
        if (moved := result(move(escrow, new["escrow"], "--no-wait")))["done"]:
            break
    assert moved == {"chain": escrow.caip2, "from": old, "to": new["escrow"], "done": True}
    assert (status(first), held(old), held(new["escrow"])) == (PaymentStatus.SETTLED, 0, 98_500_000)
    assert not Outflow.objects.filter(chain=escrow.caip2).exists()

    escrow.restart(escrow.keys, escrow=new["escrow"], first_block=new["block"])
    escrow.look()
    escrow.run("start_chain", "evm-localnet")
    assert escrow.mismatches() == []
    second = escrow.pay(escrow.agent, after, "2.00")
    escrow.work_until_nothing_is_in_flight()
    assert (status(second), held(new["escrow"])) == (PaymentStatus.SETTLED, 96_500_000)
    with escrow.running():
        reconcile(escrow.caip2, evm_chain(escrow.caip2))
    assert ChainState.objects.get(pk=escrow.caip2).stopped_reason == ""


def test_a_safe_is_given_the_calls_and_the_transfers_are_booked_before_it_makes_them(escrow):
    new = deploy(escrow)
    escrow.work_until_nothing_is_in_flight()
    booked = Withdrawal.objects.filter(chain=escrow.caip2, cancelled_at=None)
    assert calls_for_a_safe(escrow, new["escrow"]) == [call("pause()")]
    assert not booked.exists()

    assert send(deployer_key(), escrow.escrow, call("pause()"))
    taken = call("withdraw(address,address,uint256)", token(Asset.USDC), new["escrow"], 100_000_000)
    for _ in range(60):
        escrow.work()
        if (wanted := calls_for_a_safe(escrow, new["escrow"])) == [taken]:
            break
    assert wanted == [taken]
    assert [(one.amount, one.recipient) for one in booked] == [(100, new["escrow"])]

    # Until it has landed it is the same call, once.
    assert calls_for_a_safe(escrow, new["escrow"]) == [taken]
    assert send(deployer_key(), escrow.escrow, taken)
    assert calls_for_a_safe(escrow, new["escrow"]) == []
    assert booked.count() == 1


def calls_for_a_safe(escrow: Escrow, new: str) -> list[str]:
    """Run the command without the owner's key; returns the calls that it wants of it."""
    lines, error = move(escrow, new, "--no-wait", environment={"DEPLOYER_KEY": ""})
    assert error is None, error
    batches = [json.loads(line) for line in lines if line.startswith("{") and "version" in line]
    return [one["data"] for batch in batches for one in batch["transactions"]]


def test_an_escrow_that_would_pay_less_is_refused_before_anything_is_done(escrow):
    _, error = move(escrow, deploy(escrow, cap="USDC=999")["escrow"], "--no-wait")

    assert "Its daily cap for USDC is lower" in str(error)
    assert ChainState.objects.get(pk=escrow.caip2).stopped_reason == ""


def test_an_escrow_of_another_owner_or_none_at_all_is_refused_before_anything_is_done(escrow):
    stranger = deploy(escrow, owner=new_address())

    for address, why in (
        (stranger["escrow"], "owner"),
        (new_address(), "There is no escrow"),
        (escrow.escrow, "is the escrow that is configured"),
        ("0x12", "--to"),
    ):
        _, error = move(escrow, address, "--no-wait")
        assert why in str(error), error
    assert ChainState.objects.get(pk=escrow.caip2).stopped_reason == ""
    assert "rotate_keys" in str(run("move_escrow", "solana-localnet", "--to", new_address())[1])
