"""Reconciliation of a real escrow: its owner takes money out, payments go on in parallel, a stop waits for them."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, transaction
from eth_account import Account

from foundation.kernel.assets import Asset
from foundation.kernel.errors import PolicySignerUnavailable
from foundation.kernel.times import utc_now
from payments.deciding.operations import request_payment
from payments.deciding.requests import Environment
from payments.models import ChainState, DepositCursor, Payment, Reconciliation, Relayer, Settlement
from payments.reconciling.escrow_history import search_history
from payments.reconciling.outflow_booking import book_outflow, find_open_outflows
from payments.reconciling.reconciliation import reconcile
from payments.settling.broadcasting import broadcast
from payments.settling.chain_switch import start_signing_on, stop_signing_on
from payments.settling.confirming import confirm
from policy.models import Agent
from policy.signer import local_signer
from services.models import Service
from tests.chains.adapter.deployment import FUNDS_UNITS, Deployment
from tests.chains.adapter.evm_deployment import EvmDeployment
from tests.chains.adapter.solana_deployment import VALIDITY_BLOCKS, SolanaDeployment
from tests.support.evm_escrow import call
from tests.support.factories import make_agent, make_service, new_name
from tests.support.fake_chain import make_fake_chain
from tests.support.local_ids import LOCALNET, SOLANA_LOCALNET
from tests.support.payment_requests import make_request, make_service_on, pay_on
from tests.support.scenes import is_waited_for
from workshop.localnet.folder import open_folder


class RealScene:
    """An escrow of its own on an embedded chain, empty, and its relayers; under a name that nothing else uses."""

    def __init__(self, chain: Deployment, asset: Asset) -> None:
        self.name, self.chain, self.asset = new_name("real"), chain, asset
        for each in chain.assets:
            chain.withdraw(FUNDS_UNITS, each)
        self.adapter = chain.adapter()
        for turn in chain.relayers(2):
            Relayer.objects.create(
                chain=self.name, number=turn.relayer_number, address=turn.relayer_address, next_nonce=turn.nonce
            )
        self.observe()
        DepositCursor.objects.create(
            chain=self.name, escrow=self.adapter.escrow.address, block_number=chain.height, moved_at=utc_now()
        )

    def observe(self) -> None:
        seen = {"state": self.adapter.observer.observe(), "observed_at": utc_now()}
        ChainState.objects.update_or_create(chain=self.name, defaults=seen)

    def make_agent(self) -> Agent:
        return make_agent(asset=self.asset, balance="0", daily_limit="1000", weekly_limit="1000")

    def units(self, amount: int) -> int:
        return int(Decimal(amount).scaleb(self.asset.decimals))

    def withdraw(self, amount: int) -> None:
        """Let money be taken out past the product."""
        self.chain.withdraw(self.units(amount), self.asset)

    def fund(self, agent: Agent, amount: int) -> None:
        self.chain.deposit((self.asset, agent.id.encode(), self.units(amount)))
        self.chain.wait(lambda: self.watch() or None)

    def watch(self) -> int:
        return search_history(self.name, self.adapter)

    def make_service(self) -> Service:
        service, address = make_service(), self.chain.new_address()
        Service.objects.filter(pk=service.pk).update(
            chain=self.name, address=address, asset=self.asset, approved_recipient=f"{self.name}:{address}"
        )
        return service

    def pay(self, agent: Agent, service: Service, amount: str) -> Payment:
        environment = Environment(local_signer(), {self.name: self.adapter}, timedelta.max, lambda _chain: None, 600)
        return Payment.objects.get(
            pk=request_payment(make_request(agent, service, amount), environment).entry.payment_id
        )

    def follow(self) -> None:
        self.observe()
        broadcast(self.name, self.adapter)
        confirm(self.name, self.adapter)

    def settle(self) -> None:
        def look() -> bool | None:
            self.follow()
            return not Payment.objects.filter(chain=self.name, status="approved").exists() or None

        self.chain.wait(look)
        self.observe()

    def reconcile(self, **options: Any) -> Reconciliation:
        """Compare as of a block that is newer than all that happened, and than the last comparison."""
        wanted = self.chain.height + self.adapter.escrow.deposits_trail
        self.chain.wait(lambda: self.adapter.follower.find_finality().block_number > wanted or None)
        self.watch()
        rows = {row.asset: row for row in reconcile(self.name, self.adapter, **options)}
        row = rows.pop(self.asset)
        assert {other.verdict for other in rows.values()} == {"ok"}
        assert {other.holds for other in rows.values()} == {0}
        return row


def on_evm(asset: Asset) -> RealScene:
    chain = EvmDeployment(settings.CHAINS[LOCALNET].rpc_urls[0], open_folder().keys()["EVM_DEPLOYER_KEY"])
    signer = Account.from_key(settings.POLICY_SIGNER_SECP256K1_KEY).address
    chain.as_owner((chain.escrow, call("setPolicySigner(address)", signer)))
    return RealScene(chain, asset)


def on_solana(asset: Asset) -> RealScene:
    url, key = settings.CHAINS[SOLANA_LOCALNET].rpc_urls[0], open_folder().keys()["EVM_DEPLOYER_KEY"]
    return RealScene(SolanaDeployment(url, key, settings.POLICY_SIGNER_SOLANA_KEY), asset)


SCENES = [(on_evm, Asset.USDC), (on_solana, Asset.SOL), (on_solana, Asset.PYUSD)]
on_every_chain = pytest.mark.parametrize(("make", "asset"), SCENES, ids=lambda one: getattr(one, "__name__", one))


@on_every_chain
def test_money_that_is_taken_without_booking_it_stops_signing_until_it_is_booked(db, make, asset):
    scene = make(asset)
    agent, service = scene.make_agent(), scene.make_service()
    scene.fund(agent, 100)
    scene.pay(agent, service, "5")
    row = scene.reconcile()
    assert (row.verdict, row.holds, row.booked, row.in_flight) == ("ok", 100, 100, 5)
    scene.settle()
    row = scene.reconcile()
    assert (row.verdict, row.holds, row.booked, row.in_flight) == ("ok", 95, 95, 0)
    assert scene.reconcile(is_thorough=True).unconfirmed == []

    scene.withdraw(20)
    row = scene.reconcile()
    assert (row.verdict, row.holds, row.booked) == ("ok", 75, 75)  # it is known what left
    with pytest.raises(PolicySignerUnavailable):
        scene.pay(agent, service, "1")

    (outflow,) = find_open_outflows(scene.name)
    assert (outflow.asset, outflow.amount) == (asset, 20)
    book_outflow(outflow.pk, by="test", reason="Taken by the owner", agent_id=agent.id)
    assert scene.reconcile().verdict == "ok"
    with pytest.raises(PolicySignerUnavailable):
        scene.pay(agent, service, "1")
    start_signing_on(scene.name, by="ann")
    scene.observe()
    assert scene.pay(agent, service, "1").status == "approved"


@on_every_chain
def test_the_chain_confirms_what_it_paid_and_denies_what_is_only_said_to_be_settled(db, make, asset):
    scene = make(asset)
    agent, service = scene.make_agent(), scene.make_service()
    scene.fund(agent, 100)
    an_hour_ago = utc_now() - timedelta(hours=1)
    paid, more = scene.pay(agent, service, "2"), scene.pay(agent, service, "3")
    scene.settle()
    Payment.objects.filter(chain=scene.name).update(settled_at=an_hour_ago)
    row = scene.reconcile()
    assert (row.receipts_checked, row.unconfirmed, row.settled_total) == (2, [], 5)

    never_sent = scene.pay(agent, service, "4")
    block = scene.adapter.follower.find_finality().block_number
    Settlement.objects.filter(payments=never_sent).update(state="final", block_number=block)
    Payment.objects.filter(pk=never_sent.pk).update(status="settled", settled_at=an_hour_ago)
    Payment.objects.filter(pk=more.pk).update(amount=Decimal("2.5"))
    if isinstance(scene.chain, SolanaDeployment):
        # Before that it might still land.
        scene.chain.advance(VALIDITY_BLOCKS + 1)

    row = scene.reconcile(is_thorough=True)
    # The contract's event names the amount, too; a transaction on Solana is what was signed.
    denied = [never_sent.pk] if isinstance(scene.chain, SolanaDeployment) else [never_sent.pk, more.pk]
    assert row.unconfirmed == sorted(denied)
    assert paid.pk not in row.unconfirmed
    assert row.drift == Decimal("3.5")


@pytest.mark.usefixtures("committed")
@on_every_chain
def test_payments_that_go_on_meanwhile_never_look_like_missing_money_or_a_surplus(make, asset):
    scene = make(asset)
    agents = [scene.make_agent() for _ in range(2)]
    for agent in agents:
        scene.fund(agent, 100)
    scene.observe()
    service, is_over = scene.make_service(), threading.Event()

    def pay_on_and_on(agent: Agent) -> None:
        try:
            for _ in range(15):
                scene.pay(agent, service, "1")
        finally:
            connection.close()

    def keep_settling() -> None:
        try:
            while not is_over.is_set():
                scene.follow()
                scene.watch()
                scene.chain.mine()
        finally:
            connection.close()

    rows: list[Reconciliation] = []
    with ThreadPoolExecutor(3) as pool:
        settling = pool.submit(keep_settling)
        try:
            paying = [pool.submit(pay_on_and_on, agent) for agent in agents]
            while not settling.done() and (not all(one.done() for one in paying) or _is_open(scene)):
                rows += reconcile(scene.name, scene.adapter)
        finally:
            is_over.set()
        settling.result()
        for one in paying:
            one.result()

    assert {row.verdict for row in rows} == {"ok"}
    assert any(row.in_flight for row in rows)
    row = scene.reconcile(is_thorough=True)
    assert (row.verdict, row.holds, row.in_flight) == ("ok", 170, 0)


def _is_open(scene: RealScene) -> bool:
    return Payment.objects.filter(chain=scene.name, status="approved").exists()


@pytest.mark.usefixtures("committed")
def test_a_stop_waits_for_the_payments_that_are_being_decided():
    chain = make_fake_chain(1)
    agent, service = make_agent(), make_service_on(chain)
    stopped = threading.Event()

    def stop() -> None:
        try:
            stop_signing_on(chain.name, reason="A test", by="ann")
            stopped.set()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            pay_on(chain, agent, service)
            stopping = pool.submit(stop)
            while not is_waited_for():
                assert not stopping.done()
            assert not stopped.is_set()
        stopping.result()

    with pytest.raises(PolicySignerUnavailable):
        pay_on(chain, agent, service)
