"""The EVM adapter: payments through the escrow contract. See `ChainAdapter` for each method.

It has one part for each concern, and passes each call on to that part.
Source: docs/architecture.md, "One settlement's way"; docs/background.md, "Settlement on EVM".
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from chains.catalogue import ServedChain
from chains.evm.authorizing import EvmAuthorizer
from chains.evm.broadcasting import broadcast
from chains.evm.configuration_check import Expected, Inspection, Roles
from chains.evm.escrow import EvmEscrow
from chains.evm.fees import GWEI, FeeLimits
from chains.evm.following import EvmFollower
from chains.evm.inspection import inspect
from chains.evm.observing import EvmObserver
from chains.evm.preparing import EvmPreparer
from chains.evm.proving import EvmProver
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
from foundation.kernel.assets import Asset

# A transaction that a node accepted, but no block includes, is submitted again after this.
RESEND_AFTER = timedelta(seconds=30)
# The lifetime of a signature: until it ends, a missing transaction proves nothing.
VALIDITY = timedelta(minutes=15)
_MOST_BLOCKS_BEHIND = 32


class EvmChain:
    """One EVM chain with its escrow.

    `policy_signer` is the address of our policy signer, which the escrow must know; without it, the escrow's roles are
    not compared.
    """

    def __init__(
        self,
        served: ServedChain,
        relayer_seed: bytes,
        max_fee_gwei: int = 1_000,
        *,
        policy_signer: str | None = None,
        validity: timedelta = VALIDITY,
    ) -> None:
        self.served = served
        self.escrow, self.first_block = served.escrow, served.first_block
        self.resend_after = RESEND_AFTER
        self.deposits_trail, self.most_blocks_behind = 0, _MOST_BLOCKS_BEHIND
        self.nodes = Nodes(served.rpc_urls, Identity("eth_chainId", served.chain.chain_id), chain=served.chain.alias)
        # For questions to each single node, such as which chain it belongs to.
        self.single_nodes = [Nodes((url,)) for url in served.rpc_urls]
        fee_limits = FeeLimits.of(served, max_fee_gwei * GWEI)
        self._policy_signer = policy_signer
        self._preparer = EvmPreparer(served, relayer_seed, fee_limits, validity)
        self.authorizations = EvmAuthorizer(served, self._preparer)
        self.configuration = self._preparer.configuration
        self._follower = EvmFollower(self.nodes, served)
        self._prover = EvmProver(self.nodes, served)
        self._observer = EvmObserver(self.nodes, served, self._follower, fee_limits, self.configuration)
        self._escrow = EvmEscrow(self.nodes, served)

    @property
    def nonces(self) -> EvmPreparer:
        return self._preparer

    @property
    def payee_accounts(self) -> None:
        # The escrow can pay any address: a token treats accounts and contracts alike.
        return None

    @property
    def most_relayers(self) -> None:
        return None

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
        """Read the configuration of the nodes, the escrow and the tokens; `relayers` as of `find_mismatches`."""
        found = inspect(self.single_nodes, self.expect(relayers))
        self.nodes.note_contradictions(found.outvoted, "the escrow and the tokens")
        return found

    def expect(self, relayers: Sequence[str]) -> Expected:
        """Collect the configuration that is compared with the chain."""
        roles = Roles(self._policy_signer, tuple(relayers)) if self._policy_signer else None
        served = self.served
        return Expected(
            served.chain.chain_id, served.escrow, served.tokens, roles, served.first_block, owner=served.owner
        )

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
        return self._escrow.search(first_block, last_block)

    def peek_escrow(self, first_block: int, last_block: int) -> EscrowSearch:
        return self._escrow.peek(first_block, last_block)

    def find_holdings(self, block_number: int) -> dict[Asset, Decimal]:
        return self._escrow.find_holdings(block_number)
