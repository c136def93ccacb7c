"""The Solana adapter: payments from token accounts of a multisig, as a record of its parts. See `ChainAdapter`.

Source: docs/architecture.md, "One settlement's way"; docs/background.md, "Settlement on Solana".
"""

from dataclasses import dataclass
from typing import Self

from chains.catalogue import ServedChain
from chains.rpc.node import Identity
from chains.rpc.nodes import Nodes
from chains.solana.broadcasting import SolanaBroadcaster
from chains.solana.derivation import EscrowSigners
from chains.solana.escrow import SolanaEscrow
from chains.solana.following import SolanaFollower
from chains.solana.inspection import SolanaInspector
from chains.solana.observing import SolanaObserver
from chains.solana.payees import SolanaPayees
from chains.solana.preparing import SolanaPreparer
from chains.solana.proving import SolanaProver


@dataclass(frozen=True, slots=True, kw_only=True)
class SolanaChain:
    """One Solana chain with the escrow of its signers."""

    served: ServedChain
    signers: EscrowSigners
    nodes: Nodes
    preparer: SolanaPreparer
    nonces: None = None
    # Its tokens know no authorizations that whoever has them may submit.
    authorizations: None = None
    broadcaster: SolanaBroadcaster
    follower: SolanaFollower
    prover: SolanaProver
    observer: SolanaObserver
    payee_accounts: SolanaPayees
    inspector: SolanaInspector
    escrow: SolanaEscrow

    @classmethod
    def of(
        cls, served: ServedChain, relayer_seed: bytes, signers: EscrowSigners, max_unit_price: int = 5_000_000
    ) -> Self:
        """Put the parts together, without asking any node.

        `max_unit_price` is the highest offer for a compute unit, in micro-lamports.
        """
        identity = Identity("getGenesisHash", served.chain.reference, is_prefix=True)
        nodes = Nodes(served.rpc_urls, identity, chain=served.chain.alias)
        preparer = SolanaPreparer(served, relayer_seed, signers, max_unit_price)
        follower = SolanaFollower(nodes, served)
        return cls(
            served=served,
            signers=signers,
            nodes=nodes,
            preparer=preparer,
            broadcaster=SolanaBroadcaster(nodes),
            follower=follower,
            prover=SolanaProver(nodes, served),
            observer=SolanaObserver(
                nodes, served, signers, follower, configuration=preparer.configuration, max_unit_price=max_unit_price
            ),
            payee_accounts=SolanaPayees(nodes, served, signers),
            inspector=SolanaInspector(nodes, served, signers),
            escrow=SolanaEscrow(nodes, served, signers),
        )
