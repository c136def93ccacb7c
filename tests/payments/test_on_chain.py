"""One payment all the way: asked for over HTTP, settled by the real functions, checked on the chain itself."""

import subprocess
import sys
import time
from typing import Any

import pytest
import requests
from django.conf import settings

from allowance.kernel.assets import Asset
from payments.chains.registry import served_chains
from payments.models import Settlement
from tests.chains import LOCALNET, PATIENCE_S, TRANSFER, balance_of, drain, escrow, is_settled, rpc, token
from tests.factories import make_agent, make_api_key, make_service, new_address, new_name
from tests.invariants import check_agent
from tests.servers import Servers, server_environment

pytestmark = pytest.mark.usefixtures("committed")


class Client:
    """Somebody with an API key, and a payee with an address that nobody used before."""

    def __init__(self, servers: Servers, asset: Asset = Asset.USDC) -> None:
        self.url = servers.urls[0]
        self.address = new_address()
        self.agent = make_agent(asset=asset)
        self.service = make_service(asset=asset, recipient=f"evm-localnet:{self.address}")
        self._headers = {"Authorization": f"Bearer {make_api_key()}"}

    def pay(self, amount: str) -> dict[str, Any]:
        answer = requests.post(
            f"{self.url}/v1/payments/request",
            json={
                "agentId": self.agent.id,
                "service": self.service.id,
                "amount": amount,
                "asset": self.agent.asset,
                "reason": "On chain",
            },
            headers={**self._headers, "Idempotency-Key": new_name("key")},
            timeout=30,
        )
        assert answer.status_code == 201, answer.text
        payment: dict[str, Any] = answer.json()
        return payment

    def look(self, payment_id: str) -> dict[str, Any]:
        answer = requests.get(f"{self.url}/v1/payments/{payment_id}", headers=self._headers, timeout=30)
        assert answer.status_code == 200, answer.text
        payment: dict[str, Any] = answer.json()
        return payment


def topic(address: str) -> str:
    return "0x" + address.lower().removeprefix("0x").rjust(64, "0")


@pytest.mark.parametrize(
    ("asset", "amount", "units"),
    [
        (Asset.USDC, "0.50", 500_000),
        (Asset.USDT, "0.000001", 1),
        (Asset.PYUSD, "9.999999", 9_999_999),
        (Asset.EURC, "7", 7_000_000),
    ],
)
def test_a_payment_moves_exactly_its_amount_from_the_escrow_to_the_recipient(servers, asset, amount, units):
    client = Client(servers, asset)
    escrow_had = balance_of(asset, escrow())

    payment = client.pay(amount)
    assert client.look(payment["id"])["status"] == "approved"
    assert client.look(payment["id"])["finalTx"] is None
    assert not is_settled(payment["id"])
    drain()

    receipt = rpc("eth_getTransactionReceipt", payment["tx"])
    assert receipt["status"] == "0x1"
    assert receipt["to"].lower() == escrow().lower()
    transfers = [log for log in receipt["logs"] if log["topics"][0] == TRANSFER]
    assert len(transfers) == 1
    assert transfers[0]["address"].lower() == token(asset).lower()
    assert transfers[0]["topics"] == [TRANSFER, topic(escrow()), topic(client.address)]
    assert int(transfers[0]["data"], 16) == units
    assert balance_of(asset, client.address) == units
    assert balance_of(asset, escrow()) <= escrow_had - units
    assert is_settled(payment["id"])

    shown = client.look(payment["id"])
    assert shown["status"] == "settled"
    assert shown["finalTx"] == shown["tx"] == payment["tx"]
    assert [one["state"] for one in shown["transactions"]] == ["final"]
    assert shown["settledAt"] >= shown["createdAt"]
    assert shown["failedAt"] is None
    check_agent(client.agent.id)


def test_the_same_bytes_sent_again_and_again_move_money_once(servers):
    client = Client(servers)
    payment = client.pay("1.25")
    adapter = served_chains()[LOCALNET]
    raw = bytes(Settlement.objects.get(tx=payment["tx"]).raw)

    client.pay("0.01")
    drain()
    for _ in range(3):
        adapter.send([raw])
        rpc("evm_mine")

    assert balance_of(Asset.USDC, client.address) == 1_260_000
    assert rpc("eth_getTransactionByHash", payment["tx"])["hash"] == payment["tx"]


def test_bytes_that_are_in_the_pool_already_are_taken_for_sent(servers):
    client = Client(servers)
    payment = client.pay("0.75")
    # As if a worker had died between sending and writing down that it sent.
    for earlier in Settlement.objects.filter(chain=LOCALNET, state="signed").order_by("relayer_id", "nonce"):
        served_chains()[LOCALNET].send([bytes(earlier.raw)])

    drain()

    assert balance_of(Asset.USDC, client.address) == 750_000
    assert client.look(payment["id"])["status"] == "settled"


def test_payments_of_several_agents_all_arrive(servers):
    clients = [Client(servers) for _ in range(4)]
    for number, client in enumerate(clients * 2):
        client.pay(f"{number}.5")

    drain()

    for number, client in enumerate(clients):
        assert (
            balance_of(Asset.USDC, client.address) == 500_000 + number * 1_000_000 + (number + 4) * 1_000_000 + 500_000
        )
        check_agent(client.agent.id)


def test_a_worker_and_a_clock_settle_payments_without_anyone_else(servers, tmp_path):
    client = Client(servers)
    celery = [sys.executable, "-m", "celery", "-A", "allowance"]
    commands = {
        "worker": [*celery, "worker", "--concurrency", "2", "--loglevel", "WARNING", "--without-mingle"],
        "beat": [*celery, "beat", "--loglevel", "WARNING", "--schedule", str(tmp_path / "schedule")],
    }
    processes = []
    for name, command in commands.items():
        with (tmp_path / f"{name}.log").open("wb") as log:
            processes.append(
                subprocess.Popen(command, env=server_environment(), cwd=settings.BASE_DIR, stdout=log, stderr=log)
            )
    try:
        payment = client.pay("0.33")
        deadline = time.monotonic() + PATIENCE_S
        while client.look(payment["id"])["status"] != "settled":
            logs = [(tmp_path / f"{name}.log").read_text() for name in commands]
            assert time.monotonic() < deadline, logs
            assert all(process.poll() is None for process in processes), logs
            time.sleep(0.2)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(timeout=60)

    assert is_settled(payment["id"])
    assert balance_of(Asset.USDC, client.address) == 330_000
    check_agent(client.agent.id)
