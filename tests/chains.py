"""Chains for tests: the real one as anybody sees it, by plain JSON-RPC, and a fake one that remembers."""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import requests
from django.conf import settings
from eth_abi.abi import encode
from eth_account import Account
from eth_utils.crypto import keccak

from allowance.embedded.folder import open_folder
from allowance.kernel.assets import Asset
from allowance.kernel.times import utc_now
from ledger.models import LogEntry
from payments.chains.base import (
    ChainUnavailable,
    Finality,
    Inclusion,
    Order,
    SignedTransaction,
    TransactionRefused,
    Turn,
)
from payments.chains.registry import served_chains
from payments.lifecycle import OPEN_STATES
from payments.models import ChainState, Payment, Relayer, Settlement
from payments.operations import Environment, request_payment
from payments.requests import PaymentRequest
from payments.settlement import broadcast, confirm
from policy.models import Agent
from policy.signer import PolicySigner, local_signer
from services.models import Service
from tests.factories import make_service, new_address, new_name

LOCALNET = "eip155:31337"
VALIDITY = timedelta(hours=1)
PATIENCE_S = 120
LONG_AGO = Finality(100, datetime(2020, 1, 1, tzinfo=UTC))
TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"


# --- The real chain ---------------------------------------------------------------------------------------------------
def rpc(method: str, *params: Any) -> Any:
    """Ask the embedded node, with nothing of ours in between."""
    body: Any = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = requests.post(settings.CHAINS[LOCALNET].rpc_urls[0], json=body, timeout=30).json()
    assert "error" not in answer, answer
    return answer["result"]


def escrow() -> str:
    return settings.CHAINS[LOCALNET].escrow


def token(asset: Asset = Asset.USDC) -> str:
    return settings.CHAINS[LOCALNET].tokens[asset]


def balance_of(asset: Asset, owner: str) -> int:
    return int(rpc("eth_call", {"to": token(asset), "data": call("balanceOf(address)", owner)}, "latest"), 16)


def is_settled(payment_id: str) -> bool:
    word = payment_id.encode().ljust(32, b"\0")
    return int(rpc("eth_call", {"to": escrow(), "data": call("settled(bytes32)", word)}, "latest"), 16) == 1


def call(signature: str, *arguments: Any) -> str:
    types = [one for one in signature[signature.index("(") + 1 : -1].split(",") if one]
    return "0x" + (keccak(text=signature)[:4] + encode(types, arguments)).hex()


def as_owner(signature: str, *arguments: Any) -> None:
    """Call the escrow as its owner and wait until the call is in a block."""
    owner = Account.from_key(open_folder().keys()["EVM_DEPLOYER_KEY"])
    signed = owner.sign_transaction(
        {
            "chainId": 31337,
            "nonce": int(rpc("eth_getTransactionCount", owner.address), 16),
            "gas": 250_000,
            "maxFeePerGas": 10**12,
            "maxPriorityFeePerGas": 10**9,
            "to": escrow(),
            "data": call(signature, *arguments),
        }
    )
    tx = rpc("eth_sendRawTransaction", "0x" + signed.raw_transaction.hex())
    while (receipt := rpc("eth_getTransactionReceipt", tx)) is None:
        rpc("evm_mine")
    assert receipt["status"] == "0x1"


@contextmanager
def paused_escrow() -> Iterator[None]:
    as_owner("pause()")
    try:
        yield
    finally:
        as_owner("unpause()")


@contextmanager
def daily_cap(asset: Asset, units: int) -> Iterator[None]:
    before = int(rpc("eth_call", {"to": escrow(), "data": call("dailyCap(address)", token(asset))}, "latest"), 16)
    as_owner("setDailyCap(address,uint256)", token(asset), units)
    try:
        yield
    finally:
        as_owner("setDailyCap(address,uint256)", token(asset), before)


def drain() -> None:
    """Send and follow all that is under way on the real chain until nothing is."""
    adapter = served_chains()[LOCALNET]
    deadline = time.monotonic() + PATIENCE_S
    while Settlement.objects.filter(chain=LOCALNET, state__in=OPEN_STATES).exists():
        assert time.monotonic() < deadline, "the chain does not come to an end"
        broadcast(LOCALNET, adapter)
        confirm(LOCALNET, adapter)
        rpc("evm_mine")


# --- A chain that remembers -------------------------------------------------------------------------------------------
@dataclass
class FakeChain:
    """A chain of one test. It remembers what was sent, and says what the test wrote into it."""

    name: str
    sent: list[bytes] = field(default_factory=list)
    blocks: dict[str, Inclusion] = field(default_factory=dict)
    refuses: set[bytes] = field(default_factory=set)
    is_away: bool = False
    lags: bool = False
    finality: Finality = LONG_AGO

    def prepare(
        self, order: Order, turn: Turn, state: Mapping[str, Any], now: datetime, signer: PolicySigner
    ) -> SignedTransaction:
        raw = json.dumps([order.payment_id, turn.relayer_number, turn.nonce]).encode()
        return SignedTransaction(f"0x{hashlib.sha256(raw).hexdigest()}", raw, now + VALIDITY)

    def observe(self) -> dict[str, Any]:
        self._answer()
        return {"height": self.finality.block_number}

    def send(self, raw: bytes) -> None:
        self._answer()
        if raw in self.refuses:
            raise TransactionRefused("insufficient funds")
        self.sent.append(raw)

    def find_finality(self) -> Finality:
        self._answer()
        return self.finality

    def find_inclusions(self, expected: Sequence[tuple[str, Order]], finality: Finality) -> dict[str, Inclusion]:
        self._answer()
        return {tx: self.blocks[tx] for tx, _ in expected if tx in self.blocks}

    def proves_absence(self, order: Order, finality: Finality) -> bool:
        self._answer()
        return not self.lags

    def relayer_address(self, number: int) -> str:
        return f"relayer-{number}"

    def relayer_nonce(self, number: int) -> int:
        self._answer()
        return 7

    def include(self, tx: str, *, is_final: bool = True, failure: str | None = None) -> None:
        """Put a transaction into a block."""
        self.blocks[tx] = Inclusion(block_number=90, is_final=is_final, failure=failure)

    def reach(self, moment: datetime) -> None:
        """Let the chain's final block be of this moment."""
        self.finality = Finality(self.finality.block_number + 1, moment)

    def _answer(self) -> None:
        if self.is_away:
            raise ChainUnavailable("No node answered.")


def make_fake_chain(relayers: int = 2) -> FakeChain:
    """Make a chain that nobody else uses, observed now."""
    chain = FakeChain(new_name("fake"))
    for number in range(relayers):
        Relayer.objects.create(chain=chain.name, number=number, address=f"relayer-{number}")
    ChainState.objects.create(chain=chain.name, state={}, observed_at=utc_now())
    return chain


def make_service_on(chain: FakeChain, *, webhook_url: str | None = None) -> Service:
    """Make an approved USDC service whose recipient is on a fake chain."""
    service = make_service(webhook_url=webhook_url)
    address = new_address()
    Service.objects.filter(pk=service.pk).update(
        chain=chain.name, address=address, approved_recipient=f"{chain.name}:{address}"
    )
    return Service.objects.get(pk=service.pk)


# --- Paying -----------------------------------------------------------------------------------------------------------
def make_request(agent: Agent, service: Service, amount: str = "1.00", key: str | None = None) -> PaymentRequest:
    """Make a well-formed request; its fingerprint depends on amount and service."""
    return PaymentRequest(
        agent_id=agent.id,
        service=service.id,
        amount=Decimal(amount),
        amount_text=amount,
        asset=Asset(agent.asset),
        reason="A test",
        metadata_json=None,
        idempotency_key=key or new_name("key"),
        fingerprint=hashlib.sha256(f"{service.id} {amount}".encode()).digest(),
    )


def environment_of(chain: FakeChain, now: datetime | None = None, max_age: timedelta = timedelta.max) -> Environment:
    """Let decisions depend on a fake chain and a chosen clock."""
    return Environment(
        signer=local_signer(),
        chains={chain.name: chain},
        max_chain_state_age=max_age,
        wake=lambda _: None,
        now=now,
    )


def pay_on(
    chain: FakeChain, agent: Agent, service: Service, amount: str = "1.00", now: datetime | None = None
) -> Payment:
    """Have a payment approved on a fake chain."""
    entry: LogEntry = request_payment(make_request(agent, service, amount), environment_of(chain, now)).entry
    return Payment.objects.get(pk=entry.payment_id)
