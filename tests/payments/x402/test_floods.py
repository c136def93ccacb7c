"""Strangers fill a block with events that cost next to nothing: what is ours in it is found, and signing goes on.

On a real EVM, behind nodes that refuse to tell of more than twenty logs at once, as providers do beyond some number.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from eth_account import Account

from chains.evm.adapter import EvmChain
from chains.port import ChainUnavailable
from foundation.environment.keys import held_key
from payments.lifecycle import PaymentStatus
from payments.models import ChainState, Deposit, DepositCursor, Outflow, Payment
from payments.reconciling.escrow_history import search_history
from payments.reconciling.watcher import observe
from payments.settling.broadcasting import broadcast
from policy.models import Agent
from services.models import Service
from services.served_chains import configured_roles
from tests.chains.adapter.anvil_node import has_program
from tests.payments.x402.conftest import Demand, payment_of
from tests.payments.x402.stage import NETWORK, X402Deployment
from tests.payments.x402.test_attacks import by_relayer, by_signer, forge
from tests.support.api import Api
from tests.support.deposits import none_of_ours
from tests.support.evm_escrow import call
from tests.support.factories import new_address
from tests.support.javascript import needs_node
from tests.support.limiting_nodes import LimitingNode, limiting_nodes

pytestmark = [needs_node, has_program, pytest.mark.long(60)]

MOST_LOGS = 20
CROWD = MOST_LOGS + 10
UNITS = 1_250_000
TAKE = "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)"
DEPOSIT = "deposit(string,address,uint256)"
_GAS = hex(300_000)


class Stranger:
    """Somebody with gas money."""

    def __init__(self, chain: X402Deployment) -> None:
        self._chain, self.address = chain, Account.create().address
        chain.rpc("anvil_setBalance", self.address, hex(10**21))
        chain.rpc("anvil_impersonateAccount", self.address)

    def call(self, to: str, signature: str, *arguments: object) -> str:
        """Send a transaction; returns its id."""
        wanted = {"from": self.address, "to": to, "data": call(signature, *arguments), "gas": _GAS}
        tx: str = self._chain.rpc("eth_sendTransaction", wanted)
        return tx

    def get(self, token: str) -> None:
        """Get some of a token that anybody can mint, to deposit it."""
        self.call(token, "mint(address,uint256)", self.address, 10**12)
        self.call(token, "approve(address,uint256)", self._chain.escrow, 10**12)
        self._chain.rpc("anvil_mine", hex(1))

    def take(self, payload: dict[str, Any]) -> str:
        """Use an authorization, as a facilitator does."""
        said = payload["payload"]["authorization"]
        numbers = (int(said[name]) for name in ("value", "validAfter", "validBefore"))
        nonce, signed = (bytes.fromhex(one[2:]) for one in (said["nonce"], payload["payload"]["signature"]))
        return self.call(self._chain.token, TAKE, said["from"], said["to"], *numbers, nonce, signed)


class Filled(NamedTuple):
    """What is in a block: two payments, and the transactions of a deposit and of a crowd."""

    paid: Payment
    taken: Payment
    deposit: str
    crowd: list[str]


@dataclass(frozen=True)
class Story:
    """A payment that we submit, and one that its payee takes, in the same block as much that a stranger makes."""

    chain: X402Deployment
    stranger: Stranger
    api: Api
    agent: Agent
    payee: Service
    demand: Demand

    @property
    def requirements(self) -> dict[str, Any]:
        """What the payee's 402 asks for."""
        facts = {"scheme": "exact", "network": NETWORK, "asset": self.chain.token, "amount": str(UNITS)}
        extra = {"name": "USD Coin", "version": "2"}
        return facts | {"payTo": self.payee.address, "maxTimeoutSeconds": 60, "extra": extra}

    def pay(self, key: str) -> Any:
        """Ask for a payment that we submit."""
        wanted = {"agentId": self.agent.id, "service": self.payee.id, "amount": "2.00", "asset": "USDC", "reason": "It"}
        return self.api.pay(wanted, key)

    def fill_a_block(
        self, adapter: EvmChain, crowd: Callable[[], list[str]]
    ) -> tuple[Payment, Payment, str, list[str]]:
        """Have both payments made, and a deposit, in a block with a crowd; returns them, and the crowd's."""
        paid, answer = payment_of(self.pay("ours")), self.demand(self.requirements, "theirs")
        self.chain.rpc("evm_setIntervalMining", 0)
        try:
            of_crowd = crowd()
            broadcast(NETWORK, adapter)
            deposit = self.stranger.call(self.chain.escrow, DEPOSIT, self.agent.id, self.chain.token, 3_000_000)
            self.stranger.take(answer.json()["paymentPayload"])
            self.chain.rpc("anvil_mine", hex(1))
        finally:
            self.chain.rpc("evm_setIntervalMining", 1)
        self.chain.rpc("anvil_mine", hex(3))
        return Filled(paid, payment_of(answer), deposit, of_crowd)

    def has_settled(self, *payments: Payment) -> bool:
        return all(Payment.objects.get(pk=one.pk).status == PaymentStatus.SETTLED for one in payments)


@pytest.fixture
def story(chain: X402Deployment, api: Api, agent: Agent, payee: Service, demand: Demand) -> Story:
    stranger = Stranger(chain)
    for token in (chain.token, chain.unserved_token):
        stranger.get(token)
    return Story(chain, stranger, api, agent, payee, demand)


def through(chain: X402Deployment, nodes: list[LimitingNode]) -> EvmChain:
    """Make the adapter that knows the chain by these nodes alone."""
    served = replace(chain.served, rpc_urls=tuple(node.url for node in nodes))
    return EvmChain.of(served, held_key("RELAYER_SEED"), policy_signer=configured_roles().policy_signer)


def assert_all_in_one_block(chain: X402Deployment, tx: str) -> int:
    """Check that the block of a transaction is as full as it should be; returns its number."""
    number = int(chain.rpc("eth_getTransactionReceipt", tx)["blockNumber"], 16)
    receipts = chain.rpc("eth_getBlockReceipts", hex(number))
    assert len(receipts) > CROWD
    assert all(int(receipt["status"], 16) for receipt in receipts)
    return number


def test_a_block_full_of_worthless_events_hides_nothing_and_stops_nothing(story):
    chain, stranger = story.chain, story.stranger

    def crowd() -> list[str]:
        for _ in range(CROWD):
            stranger.call(chain.token, "transferFrom(address,address,uint256)", chain.escrow, new_address(), 0)
            stranger.call(chain.escrow, DEPOSIT, story.agent.id, chain.unserved_token, 1)
        return []

    with limiting_nodes(chain.url, (), (), (), most_logs=MOST_LOGS) as nodes:
        adapter = through(chain, nodes)
        paid, taken, deposit, _ = story.fill_a_block(adapter, crowd)
        assert_all_in_one_block(chain, deposit)
        assert search_history(NETWORK, adapter) == 1
        observe(NETWORK, adapter)

    assert story.has_settled(paid, taken)
    # Nothing of a token that is not served is anybody's money here.
    assert [(one.tx, one.amount) for one in Deposit.objects.filter(chain=NETWORK)] == [(deposit, 3)]
    assert Agent.objects.get(pk=story.agent.pk).balance == 1000 - 2 - Decimal("1.25") + 3
    assert not Outflow.objects.filter(chain=NETWORK).exists()
    assert not ChainState.objects.get(chain=NETWORK).stopped_reason
    assert story.pay("the next").status_code == 201
    # No receipt had to be read but that of what was taken.
    assert [node.asked.count("eth_getTransactionReceipt") for node in nodes] == [1, 1, 1]


@pytest.mark.parametrize("lacks", [(), ("eth_getBlockReceipts",)], ids=["block receipts", "single receipts"])
def test_a_block_that_every_node_refuses_is_read_by_its_receipts(story, lacks):
    """As many deposits of the least amount of a token that is served: each is somebody's money, and is recorded."""
    chain, stranger = story.chain, story.stranger

    def crowd() -> list[str]:
        return [stranger.call(chain.escrow, DEPOSIT, "nobody", chain.token, 1) for _ in range(CROWD)]

    with limiting_nodes(chain.url, lacks, lacks, lacks, most_logs=MOST_LOGS) as nodes:
        adapter = through(chain, nodes)
        paid, taken, deposit, of_crowd = story.fill_a_block(adapter, crowd)
        number = assert_all_in_one_block(chain, deposit)
        with pytest.raises(ChainUnavailable):
            adapter.escrow.search(number, number + 1, none_of_ours)
        for node in nodes:
            node.asked.clear()
        assert search_history(NETWORK, adapter) == CROWD + 1
        observe(NETWORK, adapter)

    assert story.has_settled(paid, taken)
    found = {one.tx: (one.amount, one.state) for one in Deposit.objects.filter(chain=NETWORK)}
    assert found == {deposit: (3, "credited"), **dict.fromkeys(of_crowd, (Decimal("0.000001"), "aside"))}
    assert not ChainState.objects.get(chain=NETWORK).stopped_reason
    assert (DepositCursor.objects.get(chain=NETWORK).block_number or 0) > number
    # Each receipt is read once, and that of what was taken once more.
    count = len(chain.block(number)["transactions"]) if lacks else 0
    assert [node.asked.count("eth_getTransactionReceipt") for node in nodes] == [count + 1] * 3


def test_what_both_keys_let_leave_by_an_authorization_of_no_payment_stops_signing(story):
    chain = story.chain
    payload = forge(chain, story.requirements, relayer=by_relayer, signer=by_signer)
    chain.look()
    assert not ChainState.objects.get(chain=NETWORK).stopped_reason

    tx = story.stranger.take({"payload": payload["payload"]})
    chain.rpc("anvil_mine", hex(4))
    chain.look()

    found = Outflow.objects.get(chain=NETWORK)
    assert (found.tx, found.asset, found.amount, found.recipient) == (tx, "USDC", Decimal("1.25"), story.payee.address)
    assert tx in ChainState.objects.get(chain=NETWORK).stopped_reason
