"""Chains for tests: the real one as anybody sees it, by plain JSON-RPC, and a fake one that remembers."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import requests
from django.conf import settings
from eth_abi.abi import encode
from eth_account import Account
from eth_utils.crypto import keccak

from allowance.kernel.assets import Asset
from allowance.kernel.times import utc_now
from chains.port import (
    NOTHING_PROVEN,
    ChainUnavailable,
    DepositEvent,
    EscrowSearch,
    Finality,
    IncludedPayment,
    Inclusion,
    NonceProof,
    NonceState,
    Observation,
    Order,
    OutflowEvent,
    PaymentProof,
    PaymentSigner,
    Proof,
    RelayerState,
    SignedTransaction,
    Submitter,
    TransactionQuery,
    VoidEvent,
)
from ledger.models import LogEntry
from localnet.folder import open_folder
from payments.deciding.operations import request_payment
from payments.deciding.requests import Environment, PaymentRequest
from payments.models import ChainState, Payment, Relayer, Settlement
from policy.models import Agent
from policy.signer import local_signer
from services.models import Service
from tests.support.factories import make_service, new_address, new_name, seen_by

LOCALNET = "eip155:31337"
SOLANA_LOCALNET = "solana:344CYC6QPrjfKUUBqcXLDFNyf9NBqJLa"
# What a transaction on a fake chain costs: at most, and really.
MOST_COST, COST = Decimal(1), Decimal("0.25")
VALIDITY = timedelta(minutes=15)
VALIDITY_BLOCKS = 150
PATIENCE_S = 120
LONG_AGO = Finality(100, datetime(2020, 1, 1, tzinfo=UTC), newest=102, height=100)
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
    word = bytes.fromhex(Payment.objects.get(pk=payment_id).escrow_id.removeprefix("0x"))
    return int(rpc("eth_call", {"to": escrow(), "data": call("status(bytes32)", word)}, "latest"), 16) == 1


def call(signature: str, *arguments: Any) -> str:
    types = [one for one in signature[signature.index("(") + 1 : -1].split(",") if one]
    return "0x" + (keccak(text=signature)[:4] + encode(types, arguments)).hex()


def as_owner(signature: str, *arguments: Any) -> None:
    """Call the escrow as its owner and wait until the call is in a block."""
    send_as_owner(escrow(), call(signature, *arguments))


# What the owner was asked to do so far: whoever has it do something puts it back (`tests.support.left_behind`).
OWNER_ACTS: list[str] = []


def send_as_owner(to: str, data: str) -> str:
    """Send a call of the owner, who also mints the tokens, and wait until it is in a block; returns its id."""
    OWNER_ACTS.append(to)
    owner = Account.from_key(open_folder().keys()["EVM_DEPLOYER_KEY"])
    signed = owner.sign_transaction(
        {
            "chainId": 31337,
            "nonce": int(rpc("eth_getTransactionCount", owner.address), 16),
            "gas": 250_000,
            "maxFeePerGas": 10**12,
            "maxPriorityFeePerGas": 10**9,
            "to": to,
            "data": data,
        }
    )
    tx: str = rpc("eth_sendRawTransaction", "0x" + signed.raw_transaction.hex())
    while (receipt := rpc("eth_getTransactionReceipt", tx)) is None:
        rpc("evm_mine")
    assert receipt["status"] == "0x1"
    return tx


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


# --- A chain that remembers -------------------------------------------------------------------------------------------
@dataclass
class FakeChain:
    """A chain of one test. It remembers what was sent and asked, and says what the test wrote into it.

    With `has_nonces` it is like an EVM chain, without like Solana: there a transaction expires VALIDITY_BLOCKS after
    the final block that was observed before it was signed, or the newest if none was; heights are block numbers.
    `hidden`: what is in a block, and is not told of by those who are asked where.
    """

    name: str
    seed: str = "relayer"
    sent: list[bytes] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    blocks: dict[str, Inclusion] = field(default_factory=dict)
    landed: dict[str, Settlement] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    refuses: set[bytes] = field(default_factory=set)
    mined: dict[str, int] = field(default_factory=dict)
    final_nonces: dict[str, int] = field(default_factory=dict)
    paid: set[str] = field(default_factory=set)
    voided: set[str] = field(default_factory=set)
    gas_money: dict[str, int] = field(default_factory=dict)
    mismatches: list[str] = field(default_factory=list)
    holdings: dict[Asset, Decimal] = field(default_factory=dict)
    deposits: list[DepositEvent] = field(default_factory=list)
    outflows: list[OutflowEvent] = field(default_factory=list)
    voids: list[VoidEvent] = field(default_factory=list)
    peeked: EscrowSearch = field(default_factory=EscrowSearch)
    asked_ranges: list[tuple[int, int]] = field(default_factory=list)
    longest_range: int = 10_000
    contradicted: set[int] = field(default_factory=set)
    has_highest_fee: bool = False
    is_away: bool = False
    is_pruned: bool = False
    lags: bool = False
    finality: Finality = LONG_AGO
    configuration: str = "fake"
    escrow: str = ""
    first_block: int = 0
    has_nonces: bool = True
    resend_after: timedelta = timedelta(seconds=30)
    deposits_trail: int = 0
    most_blocks_behind: int = 32
    payees: dict[str, dict[str, Any]] = field(default_factory=dict)
    objections: dict[str, str] = field(default_factory=dict)
    is_unprepared: bool = False
    untold: set[str] = field(default_factory=set)

    @property
    def nonces(self) -> "FakeChain | None":
        return self if self.has_nonces else None

    @property
    def payee_accounts(self) -> "FakeChain":
        return self

    @property
    def most_relayers(self) -> int | None:
        return None if self.has_nonces else 1

    def escrow_id(self, payment_id: str, key_hash: bytes) -> str:
        return "0x" + key_hash.hex() if self.has_nonces else payment_id

    def prepare(
        self,
        order: Order,
        submitter: Submitter,
        state: Mapping[str, Any],
        now: datetime,
        signer: PaymentSigner,
        *,
        payee: Mapping[str, Any] | None = None,
    ) -> SignedTransaction:
        if self.is_unprepared:
            raise ChainUnavailable("It cannot be prepared now.")
        if self.has_nonces:
            # A test may let the chain's time run ahead of the clock.
            valid_until = now + VALIDITY
            return self._sign([self.name, order.escrow_id, submitter.relayer_number, submitter.nonce], valid_until)
        height = state.get("height", self.finality.block_number)
        signed = self._sign([self.name, order.escrow_id, height], None)
        return replace(signed, valid_until_height=height + VALIDITY_BLOCKS, valid_from_block=height)

    def prepare_void(
        self, escrow_id: str, submitter: Submitter, state: Mapping[str, Any], signer: PaymentSigner
    ) -> SignedTransaction:
        if self.is_unprepared:
            raise ChainUnavailable("It cannot be prepared now.")
        return self._sign([self.name, "void", escrow_id, submitter.relayer_number, submitter.nonce], None)

    def prepare_filler(self, submitter: Submitter, state: Mapping[str, Any]) -> SignedTransaction:
        return self._sign([self.name, "filler", submitter.relayer_number, submitter.nonce], None)

    def raise_fee(self, raw: bytes, submitter: Submitter, state: Mapping[str, Any]) -> SignedTransaction | None:
        return None if self.has_highest_fee else self._sign([*json.loads(raw), "more"], None)

    def observe(self) -> dict[str, Any]:
        self._answer("observe")
        return {"configuration": self.configuration, "height": self.finality.block_number}

    def observe_relayers(self, addresses: Sequence[str]) -> dict[str, RelayerState]:
        self._answer("observe_relayers")
        return {
            address: RelayerState(
                balance=Decimal(self.gas_money.get(address, 1000)),
                spendable=Decimal(self.gas_money.get(address, 1000)),
                most_cost=MOST_COST,
                nonces=NonceState(self.mined.get(address, 0), self.final_nonces.get(address, 0))
                if self.has_nonces
                else None,
            )
            for address in addresses
        }

    def send(self, raws: Sequence[bytes]) -> list[str | None]:
        self._answer("send")
        self.sent += [raw for raw in raws if raw not in self.refuses]
        return ["insufficient funds" if raw in self.refuses else None for raw in raws]

    def find_finality(self) -> Finality:
        self._answer("find_finality")
        return self.finality

    def find_lost(self, blocks: Sequence[tuple[int, str]]) -> list[str]:
        self._answer("find_lost")
        return [known for _, known in blocks if known in self.lost]

    def find_inclusions(self, sought: Sequence[TransactionQuery], finality: Finality) -> Observation:
        self._answer("find_inclusions")
        found = {one.tx: self.blocks[one.tx] for one in sought if one.tx in self.blocks.keys() - self.hidden}
        inclusions = {tx: self._as_of(finality, inclusion) for tx, inclusion in found.items()}
        return Observation(inclusions, self.mined if self.has_nonces else {})

    def find_proofs(self, sought: Sequence[TransactionQuery], finality: Finality) -> dict[str, Proof]:
        self._answer("find_proofs")
        prove = self._proof if self.has_nonces else self._proof_without_nonces
        return {one.tx: prove(one) for one in sought}

    def observe_payees(
        self,
        payees: Sequence[tuple[str, Asset]],
        known: Mapping[str, Mapping[str, Any]],
        find_included: Callable[[Sequence[str]], Sequence[IncludedPayment]],
    ) -> dict[str, dict[str, Any]]:
        self._answer("observe_payees")
        return {address: self.payees[address] for address, _ in payees if address in self.payees}

    def find_objection(self, address: str) -> str | None:
        self._answer("find_objection")
        return self.objections.get(address)

    def find_most_cost(self, order: Order, state: Mapping[str, Any], payee: Mapping[str, Any] | None) -> Decimal:
        return MOST_COST

    def find_costs(self, sought: Sequence[TransactionQuery], finality: Finality) -> dict[str, Decimal]:
        self._answer("find_costs")
        landed = {one.tx: COST if one.tx in self.blocks else Decimal(0) for one in sought}
        return {tx: cost for tx, cost in landed.items() if tx not in self.untold}

    def find_reason(self, sought: TransactionQuery, block_number: int) -> str:
        self._answer("find_reason")
        return self.blocks[sought.tx].failure or "Reverted."

    def search_escrow(
        self, first_block: int, last_block: int, find_our_payments: Callable[[Sequence[str]], set[str]]
    ) -> EscrowSearch:
        self._answer("search_escrow")
        self.asked_ranges.append((first_block, last_block))
        asked = range(first_block, last_block + 1)
        if len(asked) > self.longest_range:
            raise ChainUnavailable("The range is too long.")
        if self.contradicted & set(asked):
            raise ChainUnavailable("Nodes contradict each other.")
        own = [self._event(tx, inclusion) for tx, inclusion in self.blocks.items() if inclusion.failure is None]
        outflows = [*self.outflows, *(one for one in own if isinstance(one, OutflowEvent))]
        ours = set() if self.has_nonces else find_our_payments([one.tx for one in outflows])
        return EscrowSearch(
            [one for one in self.deposits if one.block_number in asked],
            [one for one in outflows if one.block_number in asked and one.tx not in ours],
            [
                *(one for one in own if isinstance(one, VoidEvent) and one.block_number in asked),
                *(one for one in self.voids if one.block_number in asked),
            ],
        )

    def spends_from_escrow(self, raw: bytes) -> bool:
        return True

    def peek_escrow(self, finality: Finality) -> EscrowSearch:
        self._answer("peek_escrow")
        return self.peeked

    def find_holdings(self, block_number: int) -> dict[Asset, Decimal]:
        self._answer("find_holdings")
        return self.holdings

    def find_mismatches(self, relayers: Sequence[str]) -> list[str]:
        self._answer("find_mismatches")
        return self.mismatches

    def relayer_address(self, number: int) -> str:
        return f"{self.seed}-{number}"

    def include(self, settlement: Settlement, *, is_final: bool = True, failure: str | None = None) -> None:
        """Put a transaction into the next block; once that is final the escrow counts its payment, unless it fails."""
        number = self.finality.block_number + 1
        if settlement.tx in self.blocks:
            number = self.blocks[settlement.tx].block_number
        fork = hashlib.sha256(f"{number} {sorted(self.lost)}".encode()).hexdigest()
        self.blocks[settlement.tx] = Inclusion(number, f"0x{fork}", is_final=False, failure=failure)
        self.landed[settlement.tx] = settlement
        if self.has_nonces:
            address = settlement.relayer.address
            self.mined[address] = max(self.mined.get(address, 0), (settlement.nonce or 0) + 1)
        if is_final:
            self.finalise(number)

    def finalise(self, number: int) -> None:
        """Let all blocks up to this one be final."""
        number = max(number, self.finality.block_number)
        self.finality = Finality(number, self.finality.time, number + 2, height=number)
        for tx, inclusion in self.blocks.items():
            if inclusion.block_number <= number:
                self._count(self.landed[tx], inclusion)

    def vanish(self, settlement: Settlement) -> None:
        """Reorganise the chain: a transaction is in no block any more, nor is its block on the chain."""
        self.lost.add(self.blocks.pop(settlement.tx).block_hash)
        if self.has_nonces:
            address = settlement.relayer.address
            self.mined[address] = min(self.mined[address], settlement.nonce or 0)

    def reach(self, moment: datetime) -> None:
        """Let the chain's final block be of this moment."""
        self.finality = replace(self.finality, time=moment)

    def _proof(self, one: TransactionQuery) -> Proof:
        nonce = one.submitter.nonce or 0
        is_used = self.final_nonces.get(one.submitter.relayer_address, 0) > nonce
        is_void = one.order is not None and one.order.escrow_id in self.voided
        if self.lags:
            return NOTHING_PROVEN
        proof = NonceProof.USED if is_used else NonceProof.UNUSED
        if self.is_pruned:
            is_mined = self.mined.get(one.submitter.relayer_address, 0) > nonce
            proof = NonceProof.MINED if is_mined else NonceProof.UNKNOWN
        is_paid = one.order is not None and one.order.escrow_id in self.paid
        return Proof(PaymentProof.UNKNOWN if is_void else _payment_proof(is_paid=is_paid), proof)

    def _proof_without_nonces(self, one: TransactionQuery) -> Proof:
        seen = self.blocks.get(one.tx)
        if self.lags or (seen is not None and seen.block_number > self.finality.block_number):
            return NOTHING_PROVEN
        if seen is None:
            is_over = self.finality.height > (one.valid_until_height or 0)
            is_absent = is_over and not self.is_pruned
            return Proof(PaymentProof.UNPAID if is_absent else PaymentProof.UNKNOWN, NonceProof.UNUSED)
        is_paid = one.order is not None and one.order.escrow_id in self.paid
        return Proof(_payment_proof(is_paid=is_paid), NonceProof.USED)

    def _count(self, settlement: Settlement, inclusion: Inclusion) -> None:
        if self.has_nonces:
            address = settlement.relayer.address
            self.final_nonces[address] = max(self.final_nonces.get(address, 0), (settlement.nonce or 0) + 1)
        if inclusion.failure is None and settlement.payment is not None:
            (self.voided if settlement.is_void else self.paid).add(settlement.payment.escrow_id)

    def _event(self, tx: str, inclusion: Inclusion) -> OutflowEvent | VoidEvent | None:
        """Tell of a transaction that did what it was made for as the escrow's history does."""
        payment = self.landed[tx].payment
        if payment is None:
            return None
        if self.landed[tx].is_void:
            return VoidEvent(tx, 0, inclusion.block_number, payment.escrow_id)
        recipient = payment.recipient if self.has_nonces else ""
        found = outflow_of(payment, tx, inclusion.block_number, recipient=recipient)
        return replace(found, block_hash=inclusion.block_hash)

    def _as_of(self, finality: Finality, inclusion: Inclusion) -> Inclusion:
        is_final = inclusion.block_number <= finality.block_number
        return replace(inclusion, is_final=is_final, failure=inclusion.failure if is_final else None)

    def _sign(self, contents: list[Any], valid_until: datetime | None) -> SignedTransaction:
        raw = json.dumps(contents).encode()
        return SignedTransaction(f"0x{hashlib.sha256(raw).hexdigest()}", raw, MOST_COST, valid_until)

    def _answer(self, question: str) -> None:
        self.asked.append(question)
        if self.is_away:
            raise ChainUnavailable("No node answered.")


def _payment_proof(*, is_paid: bool) -> PaymentProof:
    return PaymentProof.PAID if is_paid else PaymentProof.UNPAID


def outflow_of(payment: Payment, tx: str, block_number: int, **changes: Any) -> OutflowEvent:
    """Make what the escrow's history says of a payment that was made by a transaction."""
    found = OutflowEvent(
        tx=tx,
        log_index=0,
        block_number=block_number,
        block_hash=f"0x{block_number:064x}",
        token="token",
        asset=Asset(payment.asset),
        amount=payment.amount,
        recipient=payment.recipient,
        escrow_id=payment.escrow_id,
    )
    return replace(found, **changes)


def make_fake_chain(relayers: int = 2, *, has_nonces: bool = True) -> FakeChain:
    """Make a chain that nobody else uses, observed now. Without nonces it has one relayer at most."""
    chain = FakeChain(new_name("fake"), has_nonces=has_nonces)
    for number in range(relayers if has_nonces else min(relayers, 1)):
        address, next_nonce = f"relayer-{number}", 0 if has_nonces else None
        Relayer.objects.create(chain=chain.name, number=number, address=address, next_nonce=next_nonce)
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
        refusals_per_minute=settings.REFUSALS_PER_MINUTE,
        now=now,
    )


def pay_on(
    chain: FakeChain, agent: Agent, service: Service, amount: str = "1.00", now: datetime | None = None
) -> Payment:
    """Have a payment approved on a fake chain."""
    with seen_by(now, chain.name):
        entry: LogEntry = request_payment(make_request(agent, service, amount), environment_of(chain, now)).entry
    return Payment.objects.get(pk=entry.payment_id)
