"""One payment all the way: asked for over HTTP, settled by the real functions, checked on the chain itself."""

from typing import Any

import pytest
import requests

from foundation.kernel.assets import Asset
from payments.models import Settlement
from tests.support.factories import make_agent, make_api_key, new_name
from tests.support.fake_chain import PATIENCE_S
from tests.support.house import House
from tests.support.invariants import check_agent
from tests.support.kills import wait_until
from tests.support.local_chain import Localnet, Transfer
from tests.support.localnets import EVM, LOCALNETS, SOLANA
from tests.support.servers import Servers

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.long(40)]
on_every_chain = pytest.mark.parametrize("localnet", LOCALNETS, ids=lambda one: one.alias)


class Client:
    """Somebody with an API key, and a payee with an address that nobody used before."""

    def __init__(self, servers: Servers, localnet: Localnet, asset: Asset = Asset.USDC) -> None:
        self.url = servers.urls[0]
        self.agent = make_agent(asset=asset)
        self.service = localnet.make_service(asset)
        self.address = self.service.address
        self._headers = {"Authorization": f"Bearer {make_api_key()}"}
        localnet.observe()

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


@pytest.mark.parametrize(
    ("localnet", "asset", "amount", "units"),
    [
        (EVM, Asset.USDC, "0.50", 500_000),
        (EVM, Asset.USDT, "0.000001", 1),
        (EVM, Asset.PYUSD, "9.999999", 9_999_999),
        (EVM, Asset.EURC, "7", 7_000_000),
        (SOLANA, Asset.SOL, "0.123456789", 123_456_789),
        (SOLANA, Asset.USDC, "0.50", 500_000),
        (SOLANA, Asset.USDT, "0.000001", 1),
        (SOLANA, Asset.PYUSD, "9.999999", 9_999_999),
        (SOLANA, Asset.EURC, "7", 7_000_000),
    ],
    ids=lambda one: getattr(one, "alias", None),
)
def test_a_payment_moves_exactly_its_amount_from_the_escrow_to_the_recipient(servers, localnet, asset, amount, units):
    localnet.drain()
    client = Client(servers, localnet, asset)
    escrow_had = localnet.held(asset)

    payment = client.pay(amount)
    assert client.look(payment["id"])["status"] == "approved"
    assert client.look(payment["id"])["finalTx"] is None
    assert localnet.balance_of(asset, client.address) == 0
    localnet.drain()

    assert localnet.succeeded(payment["tx"])
    (transfer,) = localnet.transfers(payment["tx"], payment["id"])
    assert transfer == Transfer(localnet.token(asset), localnet.as_written(client.address), units)
    assert localnet.balance_of(asset, client.address) == units
    assert localnet.held(asset) == escrow_had - units

    shown = client.look(payment["id"])
    assert shown["status"] == "settled"
    assert shown["finalTx"] == shown["tx"] == payment["tx"]
    assert [one["state"] for one in shown["transactions"]] == ["final"]
    assert shown["settledAt"] >= shown["createdAt"]
    assert shown["failedAt"] is None
    check_agent(client.agent.id)


@on_every_chain
def test_the_same_bytes_sent_again_and_again_move_money_once(servers, localnet):
    client = Client(servers, localnet)
    payment = client.pay("1.25")
    raw = bytes(Settlement.objects.get(tx=payment["tx"]).raw)

    client.pay("0.01")
    localnet.drain()
    for _ in range(3):
        localnet.adapter.broadcaster.send([raw])
        localnet.mine()

    assert localnet.balance_of(Asset.USDC, client.address) == 1_260_000
    assert localnet.succeeded(payment["tx"])


@on_every_chain
def test_bytes_that_nodes_have_already_are_taken_for_sent(servers, localnet):
    client = Client(servers, localnet)
    payment = client.pay("0.75")
    # As if a worker had died between sending and writing down that it sent.
    for earlier in Settlement.objects.filter(chain=localnet.caip2, state="signed").order_by("relayer_id", "nonce"):
        localnet.adapter.broadcaster.send([bytes(earlier.raw)])

    localnet.drain()

    assert localnet.balance_of(Asset.USDC, client.address) == 750_000
    assert client.look(payment["id"])["status"] == "settled"


@on_every_chain
def test_payments_of_several_agents_all_arrive(servers, localnet):
    clients = [Client(servers, localnet) for _ in range(4)]
    for number, client in enumerate(clients * 2):
        client.pay(f"{number}.5")

    localnet.drain()

    for number, client in enumerate(clients):
        units = 500_000 + number * 1_000_000 + (number + 4) * 1_000_000 + 500_000
        assert localnet.balance_of(Asset.USDC, client.address) == units
        check_agent(client.agent.id)


def test_a_worker_and_a_clock_settle_payments_on_every_chain_without_anyone_else(servers, tmp_path):
    clients = {localnet: Client(servers, localnet) for localnet in LOCALNETS}
    with House(tmp_path) as house:
        house.start("worker", WORKER_CONCURRENCY="2")
        house.start("beat")
        payments = {localnet: client.pay("0.33") for localnet, client in clients.items()}

        def all_are_settled() -> bool:
            house.check()
            return {client.look(payments[on]["id"])["status"] for on, client in clients.items()} == {"settled"}

        wait_until(all_are_settled, f"all are settled, see {tmp_path}", PATIENCE_S, poll_s=0.2)

    for localnet, client in clients.items():
        payment = client.look(payments[localnet]["id"])
        assert [one.units for one in localnet.transfers(payment["finalTx"], payment["id"])] == [330_000]
        assert localnet.balance_of(Asset.USDC, client.address) == 330_000
        check_agent(client.agent.id)
