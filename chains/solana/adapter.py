"""The Solana adapter: payments from token accounts of a multisig. See `ChainAdapter` for each method.

It has one part for each concern, and passes each call on to that part.
Source: docs/architecture.md, "One settlement's way"; docs/background.md, "Settlement on Solana".
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from chains.catalogue import ServedChain
from chains.port import (
    Contradiction,
    EscrowSearch,
    Finality,
    Observation,
    Obstacle,
    Order,
    PaymentCosts,
    PaymentSigner,
    Proof,
    RelayerState,
    SignedTransaction,
    Submitter,
    TransactionQuery,
)
from chains.rpc.node import Identity
from chains.rpc.nodes import Nodes
from chains.solana.broadcasting import broadcast
from chains.solana.configuration_check import Expected, Inspection
from chains.solana.derivation import EscrowSigners
from chains.solana.escrow import Escrow
from chains.solana.following import SolanaFollower
from chains.solana.inspection import inspect
from chains.solana.observing import SolanaObserver
from chains.solana.payees import SolanaPayees
from chains.solana.preparing import SolanaPreparer
from chains.solana.proving import SolanaProver
from foundation.kernel.assets import Asset

# A transaction that a node accepted, but no block includes, is submitted again after this: leaders change every 1.6 s.
RESEND_AFTER = timedelta(seconds=2)
# About 3 s, and 4 minutes.
_DEPOSITS_TRAIL, _MOST_BLOCKS_BEHIND = 8, 600
# An escrow is a multisig of one relayer, the policy signer and the owner; without nonces, one relayer is enough.
_RELAYERS = 1


class SolanaChain:
    """One Solana chain with the escrow of its signers.

    `max_unit_price` is the highest offer for a compute unit, in micro-lamports.
    """

    def __init__(
        self, served: ServedChain, relayer_seed: bytes, signers: EscrowSigners, max_unit_price: int = 5_000_000
    ) -> None:
        self.served, self.signers = served, signers
        self.reference = served.chain.caip2.partition(":")[2]
        self.escrow, self.first_block = served.escrow, served.first_block
        self.resend_after = RESEND_AFTER
        self.deposits_trail, self.most_blocks_behind = _DEPOSITS_TRAIL, _MOST_BLOCKS_BEHIND
        identity = Identity("getGenesisHash", self.reference, is_prefix=True)
        self.nodes = Nodes(served.rpc_urls, identity, chain=served.chain.alias)
        # For questions to each single node, such as which chain it belongs to.
        self.single_nodes = [Nodes((url,)) for url in served.rpc_urls]
        self._preparer = SolanaPreparer(served, relayer_seed, signers, max_unit_price)
        self.configuration = self._preparer.configuration
        self._follower = SolanaFollower(self.nodes, served)
        self._prover = SolanaProver(self.nodes, served)
        self._observer = SolanaObserver(
            self.nodes, served, signers, self._follower, configuration=self.configuration, max_unit_price=max_unit_price
        )
        self._payees = SolanaPayees(self.nodes, served, signers)
        self.holder = Escrow(self.nodes, served.tokens, signers)

    @property
    def nonces(self) -> None:
        return None

    @property
    def authorizations(self) -> None:
        # Its tokens know no authorizations that whoever has them may submit.
        return None

    @property
    def payee_accounts(self) -> SolanaPayees:
        return self._payees

    @property
    def most_relayers(self) -> int:
        return _RELAYERS

    # --- Preparing ----------------------------------------------------------------------------------------------------
    def escrow_id(self, payment_id: str, key_hash: bytes) -> str:
        return self._preparer.escrow_id(payment_id, key_hash)

    def find_obstacle(self, order: Order, state: Mapping[str, Any], payee: Mapping[str, Any] | None) -> Obstacle | None:
        return self._preparer.find_obstacle(order, state, payee)

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
        return self._preparer.prepare(order, submitter, state, now, signer, payee=payee)

    def rehearse(
        self,
        order: Order,
        submitter: Submitter,
        state: Mapping[str, Any],
        signer: PaymentSigner,
        *,
        payee: Mapping[str, Any] | None = None,
    ) -> Decimal:
        return self._preparer.rehearse(order, submitter, state, signer, payee=payee)

    def find_most_cost(self, order: Order, state: Mapping[str, Any], payee: Mapping[str, Any] | None) -> Decimal:
        return self._preparer.find_most_cost(order, state, payee)

    def find_payment_costs(self, state: Mapping[str, Any]) -> PaymentCosts:
        return self._preparer.find_payment_costs(state)

    def relayer_address(self, number: int) -> str:
        return self._preparer.relayer_address(number)

    def spends_from_escrow(self, raw: bytes) -> bool:
        return self._preparer.spends_from_escrow(raw)

    # --- Observing ----------------------------------------------------------------------------------------------------
    def observe(self, known: Mapping[str, Any] | None = None, *, checks_tokens: bool = True) -> dict[str, Any]:
        return self._observer.observe(known, checks_tokens=checks_tokens)

    def observe_relayers(self, addresses: Sequence[str]) -> dict[str, RelayerState]:
        return self._observer.observe_relayers(addresses)

    def find_mismatches(self, relayers: Sequence[str]) -> list[str]:
        return self.inspect(relayers).find_mismatches()

    def find_foreign(self, relayers: Sequence[str]) -> list[str]:
        return self.inspect(relayers).find_foreign()

    def take_contradictions(self) -> list[Contradiction]:
        return self.nodes.agreement.take_contradictions()

    def inspect(self, relayers: Sequence[str]) -> Inspection:
        """Read the configuration of the nodes, the escrow and the tokens."""
        # The escrow's address is derived from its signers, among them its only relayer: no list has to be compared.
        found = inspect(self.single_nodes, self.expect())
        self.nodes.note_contradictions(found.outvoted, "the escrow and the tokens")
        return found

    def expect(self) -> Expected:
        """Collect the configuration that is compared with the chain."""
        return Expected(self.reference, self.escrow, self.served.tokens, self.signers, self.served.first_block)

    # --- Submitting and following -------------------------------------------------------------------------------------
    def send(self, raws: Sequence[bytes]) -> list[str | None]:
        return broadcast(self.nodes, raws)

    def find_finality(self) -> Finality:
        return self._follower.find_finality()

    def find_lost(self, blocks: Sequence[tuple[int, str]]) -> list[str]:
        return self._follower.find_lost(blocks)

    def find_inclusions(self, queries: Sequence[TransactionQuery], finality: Finality) -> Observation:
        return self._follower.find_inclusions(queries, finality)

    def find_reason(self, query: TransactionQuery, block_number: int) -> str:
        return self._follower.find_reason(query, block_number)

    def find_proofs(self, queries: Sequence[TransactionQuery], finality: Finality) -> dict[str, Proof]:
        return self._prover.find_proofs(queries, finality)

    def find_costs(self, queries: Sequence[TransactionQuery], finality: Finality) -> dict[str, Decimal]:
        return self._prover.find_costs(queries, finality)

    # --- The escrow ---------------------------------------------------------------------------------------------------
    def search_escrow(
        self, first_block: int, last_block: int, find_our_payments: Callable[[Sequence[str]], set[str]]
    ) -> EscrowSearch:
        return self.holder.search(first_block, last_block, find_our_payments)

    def peek_escrow(self, first_block: int, last_block: int) -> EscrowSearch:
        # Blocks become final within seconds: the search of final blocks finds outflows soon enough.
        return EscrowSearch()

    def find_holdings(self, block_number: int) -> dict[Asset, Decimal]:
        return self.holder.find_holdings(block_number)
