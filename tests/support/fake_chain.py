"""A fake chain that remembers what was sent and asked."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from chains.port import (
    ChainUnavailable,
    Contradiction,
    EscrowSearch,
    Fate,
    Finality,
    GasCost,
    IncludedPayment,
    Inclusion,
    NonceState,
    Observation,
    Obstacle,
    Order,
    OutflowEvent,
    PaymentCosts,
    PaymentPlan,
    PaymentSigner,
    RelayerState,
    SignedTransaction,
    Submitter,
    TransactionPlan,
    TransactionQuery,
    VoidEvent,
)
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from payments.models import ChainState, Relayer
from tests.support.factories import new_name
from tests.support.fake_authorizer import FakeAuthorizer
from tests.support.scripted_chain import ScriptedChain

# What a transaction on a fake chain costs: at most, and really.
MOST_COST, COST = Decimal(1), Decimal("0.25")
VALIDITY = timedelta(minutes=15)
VALIDITY_BLOCKS = 150
PATIENCE_S = 120


class FakeChain(ScriptedChain):
    """A chain of one test. It remembers what was sent and asked, and says what the test wrote into it.

    It is each of its parts itself, so that a test may replace any method of it.

    With `has_nonces` it is like an EVM chain, without like Solana: there a transaction expires VALIDITY_BLOCKS after
    the final block that was observed before it was signed, or the newest if none was; heights are block numbers.
    """

    def _itself(self) -> "FakeChain":
        return self

    preparer = broadcaster = follower = prover = observer = payee_accounts = inspector = escrow = property(_itself)

    @property
    def nonces(self) -> "FakeChain | None":
        return self if self.has_nonces else None

    @property
    def authorizations(self) -> "FakeAuthorizer | None":
        return FakeAuthorizer(self) if self.has_nonces else None

    @property
    def most_relayers(self) -> int | None:
        return None if self.has_nonces else 1

    def escrow_id(self, payment_id: str, key_hash: bytes) -> str:
        return "0x" + key_hash.hex() if self.has_nonces else payment_id

    def find_obstacle(self, order: Order, state: Mapping[str, Any], payee: Mapping[str, Any] | None) -> Obstacle | None:
        return None

    def divide(self, payments: Sequence[PaymentPlan], state: Mapping[str, Any]) -> list[Sequence[PaymentPlan]]:
        return [payments[start : start + self.most_together] for start in range(0, len(payments), self.most_together)]

    def prepare(self, plan: TransactionPlan, now: datetime) -> SignedTransaction:
        self.rehearse(plan)
        ids, submitter = [order.escrow_id for order in plan.orders], plan.submitter
        if self.has_nonces:
            # A test may let the chain's time run ahead of the clock.
            valid_until = now + VALIDITY
            signed = self._sign([self.name, *ids, submitter.relayer_number, submitter.nonce], valid_until)
        else:
            height = plan.state.get("height", self.finality.block_number)
            signed = self._sign([self.name, *ids, height], None)
            signed = replace(signed, valid_until_height=height + VALIDITY_BLOCKS, valid_from_block=height)
        return replace(signed, most_cost=len(ids) * MOST_COST)

    def rehearse(self, plan: TransactionPlan) -> Decimal:
        if self.is_unprepared:
            raise ChainUnavailable("It cannot be prepared now.")
        return len(plan.payments) * MOST_COST

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

    def observe(self, known: Mapping[str, Any] | None = None, *, checks_tokens: bool = True) -> dict[str, Any]:
        self._answer("observe")
        return {"configuration": self.configuration, "height": self.finality.block_number}

    def find_payment_costs(self, state: Mapping[str, Any]) -> PaymentCosts:
        return PaymentCosts(MOST_COST, MOST_COST)

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
        return replace(self.finality, time_by_all=self.time_by_all or self.finality.time)

    def find_lost(self, blocks: Sequence[tuple[int, str]]) -> list[str]:
        self._answer("find_lost")
        return [known for _, known in blocks if known in self.lost]

    def find_inclusions(self, sought: Sequence[TransactionQuery], finality: Finality) -> Observation:
        self._answer("find_inclusions")
        found = {one.tx: self.blocks[one.tx] for one in sought if one.tx in self.blocks.keys() - self.hidden}
        inclusions = {tx: self._as_of(finality, inclusion) for tx, inclusion in found.items()}
        return Observation(inclusions, self.mined if self.has_nonces else {})

    def find_fates(self, sought: Sequence[TransactionQuery], finality: Finality) -> dict[str, Fate]:
        self._answer("find_fates")
        prove = self._proof if self.has_nonces else self._fate_without_nonces
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

    def find_costs(self, sought: Sequence[TransactionQuery], finality: Finality) -> dict[str, GasCost]:
        self._answer("find_costs")
        landed = {one.tx: GasCost(COST if one.tx in self.blocks else Decimal(0)) for one in sought}
        return {tx: cost for tx, cost in landed.items() if tx not in self.untold}

    def find_reason(self, sought: TransactionQuery, block_number: int) -> str:
        self._answer("find_reason")
        return self.blocks[sought.tx].failure or "Reverted."

    def search(
        self, first_block: int, last_block: int, find_our_payments: Callable[[Sequence[str]], set[str]]
    ) -> EscrowSearch:
        self._answer("search")
        self.asked_ranges.append((first_block, last_block))
        asked = range(first_block, last_block + 1)
        if len(asked) > self.longest_range:
            raise ChainUnavailable("The range is too long.")
        if self.contradicted & set(asked):
            raise ChainUnavailable("Nodes contradict each other.")
        done = [(tx, inclusion) for tx, inclusion in self.blocks.items() if inclusion.failure is None]
        own = [event for tx, inclusion in done for event in self._events(tx, inclusion)]
        outflows = [*self.outflows, *(one for one in own if isinstance(one, OutflowEvent))]
        ours = set() if self.has_nonces else find_our_payments([one.tx for one in outflows])
        return EscrowSearch(
            [one for one in self.deposits if one.block_number in asked],
            [one for one in outflows if one.block_number in asked and one.tx not in ours],
            [
                *(one for one in own if isinstance(one, VoidEvent) and one.block_number in asked),
                *(one for one in self.voids if one.block_number in asked),
            ],
            is_disputed=bool(self.disputed & set(asked)),
        )

    def spends_from_escrow(self, raw: bytes) -> bool:
        return True

    def peek(self, first_block: int, last_block: int) -> EscrowSearch:
        self._answer("peek")
        if last_block - first_block >= self.longest_range:
            raise ChainUnavailable("The range is too long.")
        return self.peeked

    def take_contradictions(self) -> list[Contradiction]:
        taken, self.contradictions = self.contradictions, []
        return taken

    def find_holdings(self, block_number: int) -> dict[Asset, Decimal]:
        self._answer("find_holdings")
        return self.holdings

    def find_foreign(self, relayers: Sequence[str]) -> list[str]:
        return self.foreign

    def find_mismatches(self, relayers: Sequence[str]) -> list[str]:
        self._answer("find_mismatches")
        return self.mismatches

    def relayer_address(self, number: int) -> str:
        return f"{self.seed}-{number}"

    def _as_of(self, finality: Finality, inclusion: Inclusion) -> Inclusion:
        is_final = inclusion.block_number <= finality.block_number
        skipped = inclusion.skipped if is_final else {}
        return replace(inclusion, is_final=is_final, failure=inclusion.failure if is_final else None, skipped=skipped)

    def _sign(self, contents: list[Any], valid_until: datetime | None) -> SignedTransaction:
        raw = json.dumps(contents).encode()
        return SignedTransaction(f"0x{hashlib.sha256(raw).hexdigest()}", raw, MOST_COST, valid_until)

    def _answer(self, question: str) -> None:
        self.asked.append(question)
        if self.is_away:
            raise ChainUnavailable("No node answered.")


def make_fake_chain(relayers: int = 2, *, has_nonces: bool = True) -> FakeChain:
    """Make a chain that nobody else uses, observed now. Without nonces it has one relayer at most."""
    chain = FakeChain(new_name("fake"), has_nonces=has_nonces)
    for number in range(relayers if has_nonces else min(relayers, 1)):
        address, next_nonce = f"relayer-{number}", 0 if has_nonces else None
        Relayer.objects.create(chain=chain.name, number=number, address=address, next_nonce=next_nonce)
    ChainState.objects.create(chain=chain.name, state={}, observed_at=utc_now())
    return chain
