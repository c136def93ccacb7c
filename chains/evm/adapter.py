"""The EVM adapter: payments through the escrow contract, as a record of its parts. See `ChainAdapter`.

Source: docs/architecture.md, "One settlement's way"; docs/background.md, "Settlement on EVM".
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from chains.catalogue import ServedChain
from chains.evm.authorizing import EvmAuthorizer
from chains.evm.broadcasting import EvmBroadcaster
from chains.evm.escrow import EvmEscrow
from chains.evm.fees import GWEI, FeeLimits
from chains.evm.following import EvmFollower
from chains.evm.inspection import EvmInspector
from chains.evm.observing import EvmObserver
from chains.evm.preparing import EvmPreparer
from chains.evm.proving import EvmProver
from chains.rpc.node import Identity
from chains.rpc.nodes import Nodes

# The lifetime of a signature: until it ends, a missing transaction proves nothing.
VALIDITY = timedelta(minutes=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvmChain:
    """One EVM chain with its escrow."""

    served: ServedChain
    nodes: Nodes
    preparer: EvmPreparer
    nonces: EvmPreparer
    authorizations: EvmAuthorizer
    broadcaster: EvmBroadcaster
    follower: EvmFollower
    prover: EvmProver
    observer: EvmObserver
    # The escrow can pay any address: a token treats accounts and contracts alike.
    payee_accounts: None = None
    inspector: EvmInspector
    escrow: EvmEscrow

    @classmethod
    def of(
        cls,
        served: ServedChain,
        relayer_seed: bytes,
        max_fee_gwei: int = 1_000,
        *,
        policy_signer: str | None = None,
        validity: timedelta = VALIDITY,
    ) -> Self:
        """Put the parts together, without asking any node.

        `policy_signer` is the address of our policy signer, which the escrow must know; without it, the escrow's roles
        are not compared.
        """
        nodes = Nodes(served.rpc_urls, Identity("eth_chainId", served.chain.chain_id), chain=served.chain.alias)
        fee_limits = FeeLimits.of(served, max_fee_gwei * GWEI)
        preparer = EvmPreparer(served, relayer_seed, fee_limits, validity)
        follower = EvmFollower(nodes, served)
        return cls(
            served=served, nodes=nodes, preparer=preparer, nonces=preparer, follower=follower,
            authorizations=EvmAuthorizer(served, preparer),
            broadcaster=EvmBroadcaster(nodes),
            prover=EvmProver(nodes, served),
            observer=EvmObserver(nodes, served, follower, fee_limits, preparer.configuration),
            inspector=EvmInspector(nodes, served, policy_signer),
            escrow=EvmEscrow(nodes, served),
        )  # fmt: skip
